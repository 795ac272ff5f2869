/**
 * What an emission means: `apply(state, emission)`, the twin of `headwater.model.emission.apply`, held to it by the
 * vectors in `tests/vectors/`. Pure: a state is never changed in place.
 */

/** The emission does not follow from the state; the state is still good, a fresh result is needed. */
export class Resync extends Error {
  name = "Resync";
}

export const EMPTY = Object.freeze({ rows: [], hashes: [], columns: [], seq: 0, gen: 0, position: 0 });

/** The state after the emission. One already applied changes nothing; one that does not follow throws `Resync`. */
export function apply(state, emission) {
  if (emission.type === "result") return replaced(state, emission);
  if (emission.gen === state.gen && emission.seq <= state.seq) return state;
  if (emission.gen !== state.gen || emission.prev !== state.seq) {
    throw new Resync(
      `expected an emission after seq ${state.seq} of generation ${state.gen}, ` +
        `found one after seq ${emission.prev} of generation ${emission.gen}`,
    );
  }
  const rows = [...state.rows];
  const hashes = [...state.hashes];
  if (emission.type === "swap") swap(rows, hashes, emission.pairs);
  else if (emission.changes.some(isPlaced)) changeOrdered(rows, hashes, emission.changes);
  else changeUnordered(rows, hashes, emission.changes);
  return { ...state, rows, hashes, seq: emission.seq, position: emission.position };
}

function replaced(state, { rows, hashes, columns, seq, gen, position }) {
  if (gen === state.gen && seq < state.seq) return state;
  return { rows: [...rows], hashes: [...hashes], columns: [...columns], seq, gen, position };
}

function isPlaced(change) {
  return isSet(change.index) || isSet(change.old_index);
}

function changeOrdered(rows, hashes, changes) {
  const removed = new Map();
  for (const change of placed(changes, "old_hash", "old_index").sort((a, b) => b.old_index - a.old_index)) {
    if (hashes[change.old_index] !== change.old_hash) {
      throw new Resync(`expected row ${change.old_hash} at index ${change.old_index}`);
    }
    const [row] = rows.splice(change.old_index, 1);
    hashes.splice(change.old_index, 1);
    removed.set(change.old_hash, row);
  }
  for (const change of placed(changes, "new_hash", "index").sort((a, b) => a.index - b.index)) {
    if (!(change.index >= 0 && change.index <= hashes.length)) {
      throw new Resync(`expected an index up to ${hashes.length}, found ${change.index}`);
    }
    rows.splice(change.index, 0, merged(removed.get(change.old_hash), change));
    hashes.splice(change.index, 0, change.new_hash);
  }
}

/** The changes that have such a hash; in an ordered diff each of them has a place beside it. */
function placed(changes, hash, index) {
  if (changes.some((change) => isSet(change[hash]) !== isSet(change[index]))) {
    throw new Resync(`expected an ${index} beside the ${hash} of every change`);
  }
  return changes.filter((change) => isSet(change[index]));
}

/** A hash leads to one row: each is taken once, and none comes that is still there. */
function changeUnordered(rows, hashes, changes) {
  const places = new Map(hashes.map((hash, place) => [hash, place]));
  const gone = [];
  for (const change of changes) {
    const place = isSet(change.old_hash) ? places.get(change.old_hash) : undefined;
    if (isSet(change.old_hash) && place === undefined) {
      throw new Resync(`expected row ${change.old_hash} in the result`);
    }
    places.delete(change.old_hash);
    if (place === undefined) {
      rows.push(merged(undefined, change));
      hashes.push(change.new_hash ?? "");
    } else if (!isSet(change.new_hash)) {
      gone.push(place);
    } else {
      rows[place] = merged(rows[place], change);
      hashes[place] = change.new_hash;
    }
  }
  checkFresh(changes, places);
  for (const place of gone.sort((a, b) => b - a)) {
    rows.splice(place, 1);
    hashes.splice(place, 1);
  }
}

function checkFresh(changes, untouched) {
  const seen = new Set();
  for (const { new_hash } of changes.filter((change) => isSet(change.new_hash))) {
    if (untouched.has(new_hash) || seen.has(new_hash)) throw new Resync(`expected row ${new_hash} once, found it twice`);
    seen.add(new_hash);
  }
}

function swap(rows, hashes, pairs) {
  for (const [a, b] of pairs) {
    if (Math.min(a, b) < 0 || Math.max(a, b) >= rows.length) {
      throw new Resync(`expected rows ${a} and ${b}, found ${rows.length} rows`);
    }
    [rows[a], rows[b]] = [rows[b], rows[a]];
    [hashes[a], hashes[b]] = [hashes[b], hashes[a]];
  }
}

/** `new` may hold only the columns that changed. */
function merged(old, change) {
  return { ...old, ...change.new };
}

function isSet(value) {
  return value !== null && value !== undefined;
}
