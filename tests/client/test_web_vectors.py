"""The browser's `apply` and values against the vectors, in real Chromium. The vectors come from the Python `apply`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from playwright.sync_api import Page

VECTORS = Path(__file__).parents[1] / "vectors"
APPLY = sorted(path.name for path in VECTORS.glob("apply*.json"))

WITH_CASES = """
async (name) => {
  const headwater = await import("/client/headwater.js");
  const cases = await (await fetch(`/vectors/${name}`)).json();
  const decodeFields = (row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, headwater.decodeValue(value)]));
  const decodeState = (state) => ({ ...state, rows: state.rows.map(decodeFields) });
  const same = (a, b) => JSON.stringify(a, replacer) === JSON.stringify(b, replacer);
  // Key order is free: it is sorted away. Values that JSON cannot tell apart are named.
  const replacer = (_, value) => {
    if (Object.is(value, -0)) return "-0";
    if (typeof value === "bigint") return `bigint ${value}`;
    if (typeof value === "number" && !Number.isFinite(value)) return `number ${value}`;
    if (value instanceof Uint8Array) return `bytes ${[...value]}`;
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  };
  const failures = [];
  const check = (name, right) => right || failures.push(name);
  BODY
  return { failures, count: cases.length };
}
"""
APPLIES = """
  for (const { name, state, emission, expected } of cases) {
    const before = decodeState(state);
    const copy = structuredClone(before);
    let after = "resync";
    try {
      after = headwater.apply(before, headwater.decodeEmission(emission));
    } catch (error) {
      if (!(error instanceof headwater.Resync)) throw error;
    }
    check(name, same(after, expected === "resync" ? expected : decodeState(expected)));
    check(`${name}: the state before is untouched`, same(before, copy));
  }
"""
OPERATES = """
  const play = (rows, { type, index, row, other }) => {
    if (type === "remove") rows.splice(index, 1);
    if (type === "insert") rows.splice(index, 0, row);
    if (type === "set") rows[index] = row;
    if (type === "swap") [rows[index], rows[other]] = [rows[other], rows[index]];
  };
  for (const { name, state, emission } of cases.filter(({ expected }) => expected !== "resync")) {
    const before = decodeState(state);
    const decoded = headwater.decodeEmission(emission);
    const after = headwater.apply(before, decoded);
    const rows = [...before.rows];
    headwater.operations(before, after, decoded).forEach((operation) => play(rows, operation));
    check(name, same(rows, after.rows));
  }
"""
MEANS = """
  const meanings = {
    null: () => "",
    integer: (value) => String(value),
    real: (value) => (Object.is(value, -0) ? "-0.0" : String(value).toLowerCase().replace("infinity", "inf")),
    text: (value) => value,
    blob: (value) => Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join(""),
    boolean: (value) => (value === true ? "True" : value === false ? "False" : "neither"),
    json: (value) => (typeof value.value === "object" ? value.text : "not parsed"),
    array: (value) => value.map((each) => (Array.isArray(each) ? meanings.array(each) : String(each ?? ""))).join("|"),
  };
  const texts = ["decimal", "date", "time", "timestamp", "timestamptz", "interval", "uuid", "verbatim"];
  for (const kind of texts) meanings[kind] = (value) => value.text;
  for (const { name, wire, kind, meaning } of cases) {
    const value = headwater.decodeValue(wire);
    check(name, meanings[kind](value) === meaning);
    check(`${name}: and back`, same(headwater.encodeValue(value), wire));
  }
"""


@pytest.mark.browser
@pytest.mark.parametrize("name", APPLY)
def test_apply_means_what_it_means_in_python(page: Page, name: str) -> None:
    outcome = page.evaluate(WITH_CASES.replace("BODY", APPLIES), name)
    assert outcome["failures"] == []
    assert outcome["count"] > 0


@pytest.mark.browser
@pytest.mark.parametrize("name", APPLY)
def test_operations_lead_from_the_rows_before_to_the_rows_after(page: Page, name: str) -> None:
    outcome = page.evaluate(WITH_CASES.replace("BODY", OPERATES), name)
    assert outcome["failures"] == []


@pytest.mark.browser
def test_tagged_values_keep_their_meaning_both_ways(page: Page) -> None:
    outcome = page.evaluate(WITH_CASES.replace("BODY", MEANS), "values.json")
    assert outcome["failures"] == []


def test_the_committed_vectors_are_what_the_generator_writes() -> None:
    written: dict[str, str] = runpy.run_path(str(VECTORS / "generate.py"))["files"]()
    assert {path.name: path.read_text(encoding="utf-8") for path in VECTORS.glob("*.json")} == written
