/**
 * The steps from one list of rows to the next, for views that hold the list themselves: done one after the other to the
 * rows before, they give the rows after. Pure.
 *
 *   {op: "remove", index, hash}            {op: "insert", index, hash, values}
 *   {op: "set", index, hash, old_hash, values}      values: the columns that changed      {op: "swap", index, with}
 */

import { sameValue } from "./wire.js";

/** The operations of one emission that led from `before` to `after`. */
export function operations(before, after, emission) {
  if (before === after) return [];
  if (emission.type === "swap") return emission.pairs.map(([index, other]) => ({ op: "swap", index, with: other }));
  const renamed = renames(emission);
  const origin = origins(before, after, renamed);
  const kept = longestRise(origin);
  return [...removals(before, origin, kept), ...insertions(after, kept), ...settings(before, after, origin, kept)];
}

/** Rows whose hash changed: new hash → old hash. */
export function renames(emission) {
  const updates = (emission.changes ?? []).filter((change) => change.type === "update");
  return new Map(updates.map((change) => [change.new_hash, change.old_hash]));
}

/** For each row after, its index before; -1 where it is new. */
function origins(before, after, renamed) {
  const places = new Map(before.hashes.map((hash, place) => [hash, place]));
  return after.hashes.map((hash) => places.get(renamed.get(hash) ?? hash) ?? -1);
}

function removals(before, origin, kept) {
  const staying = new Set([...kept].map((index) => origin[index]));
  const gone = before.hashes.map((hash, index) => ({ op: "remove", index, hash })).filter(({ index }) => !staying.has(index));
  return gone.reverse();
}

function insertions(after, kept) {
  return after.hashes
    .map((hash, index) => ({ op: "insert", index, hash, values: after.rows[index] }))
    .filter(({ index }) => !kept.has(index));
}

function settings(before, after, origin, kept) {
  return [...kept].sort((a, b) => a - b).flatMap((index) => {
    const [old_hash, hash] = [before.hashes[origin[index]], after.hashes[index]];
    const values = changedColumns(before.rows[origin[index]], after.rows[index]);
    const isSame = hash === old_hash && Object.keys(values).length === 0;
    return isSame ? [] : [{ op: "set", index, hash, old_hash, values }];
  });
}

function changedColumns(before, after) {
  if (before === after) return {};
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => !sameValue(before[name], value)));
}

/** The most places of `origin` that rise from left to right: these rows stay where they are, the others move. */
export function longestRise(origin) {
  const tails = []; // tails[k]: the place that ends the best rise of k + 1 places
  const previous = new Array(origin.length).fill(-1);
  origin.forEach((value, place) => {
    if (value < 0) return;
    const length = firstAtLeast(tails, origin, value);
    previous[place] = length > 0 ? tails[length - 1] : -1;
    tails[length] = place;
  });
  const kept = new Set();
  for (let place = tails.at(-1) ?? -1; place >= 0; place = previous[place]) kept.add(place);
  return kept;
}

function firstAtLeast(tails, origin, value) {
  let low = 0;
  let high = tails.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (origin[tails[middle]] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
