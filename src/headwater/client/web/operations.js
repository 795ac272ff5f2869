/**
 * The steps from one list of rows to the next, for views that hold the list themselves: done one after the other to the
 * rows before, they give the rows after. The shapes are those of `headwater.client.operations`. Pure.
 *
 *   {type: "remove", index}   {type: "insert", index, row}   {type: "set", index, row}   {type: "swap", index, other}
 */

import { sameValue } from "./wire.js";

/** The operations of one emission that led from `before` to `after`. */
export function operations(before, after, emission) {
  if (before === after) return [];
  if (emission.type === "swap") return emission.pairs.map(([index, other]) => ({ type: "swap", index, other }));
  const origin = origins(before, after, renames(emission));
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
  const gone = [...before.rows.keys()].filter((index) => !staying.has(index));
  return gone.reverse().map((index) => ({ type: "remove", index }));
}

function insertions(after, kept) {
  const coming = [...after.rows.keys()].filter((index) => !kept.has(index));
  return coming.map((index) => ({ type: "insert", index, row: after.rows[index] }));
}

function settings(before, after, origin, kept) {
  const places = [...kept].sort((a, b) => a - b);
  const changed = places.filter((index) => !sameRow(before.rows[origin[index]], after.rows[index]));
  return changed.map((index) => ({ type: "set", index, row: after.rows[index] }));
}

function sameRow(a, b) {
  return a === b || Object.keys(b).every((name) => sameValue(a[name], b[name]));
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
