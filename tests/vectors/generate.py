"""Writes the vectors that hold the Python and the browser client to one meaning.

`apply*.json`: cases of `{name, state, emission, expected}`. `emission` is a message of the wire (rows as arrays, values
tagged); the rows of `state` and `expected` are objects; `expected` is the word "resync" where the emission is refused.
`values.json`: cases of `{name, wire, kind, meaning}`. `meaning` is text: digits of an integer or decimal, hex of bytes,
`repr` of a float, elements of an array between bars.

Run `python tests/vectors/generate.py` after a change of `apply`, and read the diff like code.
"""

from __future__ import annotations

import base64
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.model.emission import Diff, Emission, Fields, Result, RowChange, State, Swap, apply
from headwater.model.errors import Resync
from headwater.model.value import Value

HERE = Path(__file__).parent
COLUMNS = ("id", "name", "total")
SAFE = 2**53
RANDOM_CASES, PART_CASES = 200, 40
PARTS = range(0, RANDOM_CASES, PART_CASES)

Json = Any


# The wire, as API.md defines it. Written out here so that the vectors do not depend on the codec they test.


def wire_value(value: Value) -> Json:
    match value:
        case int() if abs(value) >= SAFE:
            return {"$int": str(value)}
        case float() if not math.isfinite(value):
            return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case _:
            return value


def wire_fields(fields: Fields) -> Json:
    return {name: wire_value(value) for name, value in fields.items()}


def wire_change(change: RowChange) -> Json:
    new = None if change.new is None else wire_fields(change.new)
    hashes = {"old_hash": change.old_hash, "new_hash": change.new_hash}
    places = {"old_index": change.old_index, "index": change.index}
    parts = {"type": change.type, "new": new, **hashes, **places}
    return {name: part for name, part in parts.items() if part is not None}


def wire_emission(emission: Emission) -> Json:
    head = {"seq": emission.seq, "prev": emission.prev, "gen": emission.gen, "position": emission.position}
    match emission:
        case Result():
            rows = [[wire_value(row[name]) for name in emission.columns] for row in emission.rows]
            whole = {"rows": rows, "hashes": list(emission.hashes), "columns": list(emission.columns)}
            return {"type": "result", **head, **whole}
        case Diff():
            return {"type": "diff", **head, "changes": [wire_change(change) for change in emission.changes]}
        case Swap():
            return {"type": "swap", **head, "pairs": [list(pair) for pair in emission.pairs]}


def wire_state(state: State) -> Json:
    rows = [wire_fields(row) for row in state.rows]
    head = {"seq": state.seq, "gen": state.gen, "position": state.position}
    return {"rows": rows, "hashes": list(state.hashes), "columns": list(state.columns), **head}


def case(name: str, state: State, emission: Emission) -> Json:
    try:
        expected = wire_state(apply(state, emission))
    except Resync:
        expected = "resync"
    return {"name": name, "state": wire_state(state), "emission": wire_emission(emission), "expected": expected}


# Cases made by hand.


def row(id: int, name: str | None = None, total: Value = 1.5) -> Fields:
    return {"id": id, "name": name if name is not None else f"n{id}", "total": total}


def state_of(*ids: int, seq: int = 10, gen: int = 1) -> State:
    return State([row(id) for id in ids], [f"h{id}" for id in ids], COLUMNS, seq, gen, 100)


def diff_of(*changes: RowChange, seq: int = 12, prev: int = 10, gen: int = 1) -> Diff:
    return Diff(seq, prev, gen, 101, changes)


def result_of(*ids: int, seq: int, gen: int = 1) -> Result:
    hashes = tuple(f"h{id}" for id in ids)
    return Result(seq, 0, gen, 102, tuple(row(id, total=id / 4) for id in ids), hashes, COLUMNS)


def insert(id: int, index: int | None = None) -> RowChange:
    return RowChange("insert", None, row(id), None, f"h{id}", index)


def delete(id: int, old_index: int | None = None) -> RowChange:
    return RowChange("delete", None, None, f"h{id}", None, None, old_index)


def update(
    id: int, new: Fields, old_index: int | None = None, index: int | None = None, to: int | None = None
) -> RowChange:
    return RowChange("update", None, new, f"h{id}", f"h{id if to is None else to}", index, old_index)


def odd_name(column: str) -> Json:
    state = State([{column: 1}], ["a"], (column,), 1, 0, 1)
    changes = (RowChange("update", None, {column: 2}, "a", "a"), RowChange("insert", None, {column: 3}, None, column))
    return case(f"a column and a hash named {column!r}", state, Diff(2, 1, 0, 2, changes))


def made_by_hand() -> list[Json]:
    three = state_of(1, 2, 3)
    exchanged = (update(1, {"id": 2}, to=2), update(2, {"id": 1}, to=1))
    crossed = (update(1, {"total": 3}, 0, 2), update(3, {"total": 1}, 2, 0))
    tagged = RowChange("insert", None, row(2**60, "", b"\0\xff"), None, "h4")
    return [
        case("a first result fills an empty state", State(), result_of(1, 2, seq=4)),
        case("an empty result empties the state", three, result_of(seq=20)),
        case("a result replaces whatever was there", three, result_of(3, 9, seq=20)),
        case("a result of the same seq replaces", three, result_of(7, seq=10)),
        case("an older result of the same generation is ignored", three, result_of(7, seq=9)),
        case("an older seq of a newer generation replaces", three, result_of(7, seq=2, gen=2)),
        case("a result of an older generation replaces", three, result_of(7, seq=2, gen=0)),
        case("a result needs no prev", three, replace(result_of(5, seq=30), prev=29)),
        case("a diff already applied is ignored", three, diff_of(delete(1), seq=10, prev=8)),
        case("a diff long applied is ignored, though nothing in it fits", three, diff_of(delete(99), seq=3, prev=2)),
        case("a gap is refused", three, diff_of(delete(1), seq=14, prev=12)),
        case("a prev before the state is refused", three, diff_of(delete(1), seq=14, prev=9)),
        case("a diff of a newer generation is refused", three, diff_of(delete(1), gen=2)),
        case("a diff of an older generation is refused, whatever its seq", three, diff_of(delete(1), seq=5, gen=0)),
        case("a diff onto nothing", State(), diff_of(insert(1), seq=3, prev=0, gen=0)),
        case("an empty diff moves seq and position", three, diff_of()),
        case("unordered: an insert goes last", three, diff_of(insert(4))),
        case("unordered: a delete from the middle", three, diff_of(delete(2))),
        case("unordered: deletes in any order", three, diff_of(delete(1), delete(3))),
        case("unordered: everything deleted", three, diff_of(delete(3), delete(1), delete(2))),
        case("unordered: an update keeps its place", three, diff_of(update(2, {"name": "x"}))),
        case("unordered: an update to NULL", three, diff_of(update(2, {"name": None}))),
        case("unordered: a key change keeps its place", three, diff_of(update(2, {"id": 8}, to=8))),
        case("unordered: two rows exchange hashes", three, diff_of(*exchanged)),
        case("unordered: all three at once", three, diff_of(delete(1), update(2, {"total": 9}), insert(4), delete(3))),
        case("unordered: a delete of a stranger is refused", three, diff_of(insert(4), delete(9))),
        case("unordered: an update of a stranger is refused", three, diff_of(update(9, {"name": "x"}))),
        case("unordered: a delete, then its hash again", three, diff_of(delete(2), insert(2))),
        case("unordered: a delete of one row twice is refused", three, diff_of(delete(2), delete(2))),
        case("unordered: an insert of a row that is there is refused", three, diff_of(insert(2))),
        case("unordered: an insert of one row twice is refused", three, diff_of(insert(4), insert(4))),
        case("unordered: a key change to a row that is there is refused", three, diff_of(update(1, {"id": 2}, to=2))),
        case("ordered: an insert at the front", three, diff_of(insert(4, 0))),
        case("ordered: an insert at the end", three, diff_of(insert(4, 3))),
        case("ordered: inserts count in the state after", three, diff_of(insert(6, 4), insert(4, 0), insert(5, 2))),
        case("ordered: a delete at the front", three, diff_of(delete(1, 0))),
        case("ordered: deletes count in the state before", three, diff_of(delete(1, 0), delete(3, 2))),
        case("ordered: a limit's edge, one in and one out", three, diff_of(insert(4, 0), delete(3, 2))),
        case("ordered: an update in place", three, diff_of(update(2, {"total": 2.5}, 1, 1))),
        case("ordered: a row moves down", three, diff_of(update(1, {"total": 0.5}, 0, 2))),
        case("ordered: a row moves up", three, diff_of(update(3, {"total": 9.5}, 2, 0))),
        case("ordered: a row moves and nothing of it changes", three, diff_of(update(3, {}, 2, 0))),
        case("ordered: a key change and a move", three, diff_of(update(3, {"id": 8}, 2, 0, to=8))),
        case("ordered: two rows exchange places", three, diff_of(*crossed)),
        case("ordered: delete and insert of one hash elsewhere", three, diff_of(delete(1, 0), insert(1, 2))),
        case("ordered: the wrong row at old_index is refused", three, diff_of(delete(1, 1))),
        case("ordered: old_index past the end is refused", three, diff_of(delete(3, 3))),
        case("ordered: an old_index before the first row is refused", three, diff_of(delete(3, -1))),
        case("ordered: an index past the end is refused", three, diff_of(insert(4, 4))),
        case("ordered: an index before the first row is refused", three, diff_of(insert(4, -1))),
        case("ordered: a change without a place is refused", three, diff_of(insert(4, 0), delete(3))),
        case("ordered: the last row leaves", state_of(1), diff_of(delete(1, 0))),
        case("ordered: the first row comes", state_of(), diff_of(insert(1, 0))),
        case("a swap", three, Swap(12, 10, 1, 101, ((0, 2),))),
        case("swaps are exchanged one after the other", three, Swap(12, 10, 1, 101, ((0, 1), (1, 2)))),
        case("a swap with itself", three, Swap(12, 10, 1, 101, ((1, 1),))),
        case("a swap already applied is ignored", three, Swap(10, 8, 1, 101, ((0, 2),))),
        case("a swap after a gap is refused", three, Swap(14, 12, 1, 101, ((0, 2),))),
        case("a swap with a row past the end is refused", three, Swap(12, 10, 1, 101, ((0, 3),))),
        case("a swap with a row before the first is refused", three, Swap(12, 10, 1, 101, ((0, -1),))),
        case("tagged values are decoded in inserts", three, diff_of(tagged)),
        case("tagged values are decoded in updates", three, diff_of(update(1, {"total": -math.inf}))),
        *(odd_name(name) for name in ("$int", "constructor", "__proto__", "0", "")),
    ]


# Random cases: a state, another state, and the emission between them.


def random_value(chance: random.Random) -> Value:
    return chance.choice(
        (
            None,
            chance.randint(-9, 9),
            2**53 + chance.randint(0, 9),
            chance.random() * 100,
            math.inf,
            "ä €",
            "",
            b"\x00\xfe",
        )
    )


def random_rows(chance: random.Random, ids: list[int]) -> list[Fields]:
    return [{"id": id, "name": chance.choice(("a", "b", "ñ", None)), "total": random_value(chance)} for id in ids]


def random_state(chance: random.Random) -> State:
    ids = chance.sample(range(20), chance.randint(0, 6))
    return State(random_rows(chance, ids), [f"h{id}" for id in ids], COLUMNS, chance.randint(1, 50), 1, 7)


def random_after(chance: random.Random, before: State) -> tuple[list[Fields], list[str], dict[str, str]]:
    """Rows and hashes after, and old hash → new hash of the rows that stay."""
    staying = [index for index in range(len(before.rows)) if chance.random() < 0.7]
    renamed = {before.hashes[at]: before.hashes[at] + chance.choice(("", "", "", "'")) for at in staying}
    rows = [{**before.rows[at], "total": random_value(chance)} for at in staying]
    fresh = [f"h{id}" for id in chance.sample(range(20, 30), chance.randint(0, 2))]
    hashes = [renamed[before.hashes[at]] for at in staying] + fresh
    return rows + random_rows(chance, [int(hash[1:]) for hash in fresh]), hashes, renamed


def between(
    before: State, rows: list[Fields], hashes: list[str], renamed: dict[str, str], ordered: bool
) -> list[RowChange]:
    def index(place: int) -> int | None:
        return place if ordered else None

    origin = {new: before.hashes.index(old) for old, new in renamed.items()}
    changes = [
        RowChange("delete", None, None, hash, None, None, index(at))
        for at, hash in enumerate(before.hashes)
        if hash not in renamed
    ]
    for at, (fields, hash) in enumerate(zip(rows, hashes, strict=True)):
        if hash not in origin:
            changes.append(RowChange("insert", None, fields, None, hash, index(at)))
            continue
        old = before.rows[origin[hash]]
        new = {name: value for name, value in fields.items() if old[name] != value}
        changes.append(
            RowChange("update", None, new, before.hashes[origin[hash]], hash, index(at), index(origin[hash]))
        )
    return changes


def random_diff(chance: random.Random, before: State) -> Diff:
    ordered = chance.random() < 0.6
    rows, hashes, renamed = random_after(chance, before)
    if ordered:
        order = chance.sample(range(len(rows)), len(rows)) if chance.random() < 0.5 else range(len(rows))
        rows, hashes = [rows[at] for at in order], [hashes[at] for at in order]
    changes = between(before, rows, hashes, renamed, ordered)
    chance.shuffle(changes)
    return Diff(before.seq + chance.randint(1, 5), before.seq, before.gen, 8, tuple(changes))


def random_emission(chance: random.Random, before: State) -> Emission:
    if chance.random() < 0.15 and before.rows:
        pairs = tuple((chance.randrange(len(before.rows)), chance.randrange(len(before.rows))) for _ in range(3))
        return Swap(before.seq + 1, before.seq, before.gen, 8, pairs)
    emission = random_diff(chance, before)
    if chance.random() < 0.1:
        return replace(emission, prev=emission.prev - 1)
    return replace(emission, seq=emission.prev) if chance.random() < 0.1 else emission


def made_at_random(seed: int) -> list[Json]:
    chance = random.Random(seed)
    states = [random_state(chance) for _ in range(RANDOM_CASES)]
    return [case(f"random {number}", state, random_emission(chance, state)) for number, state in enumerate(states)]


# Values.


def value_case(name: str, wire: Json, kind: str, meaning: str) -> Json:
    return {"name": name, "wire": wire, "kind": kind, "meaning": meaning}


TEXTS = (
    ("a date", "date", "2024-02-29"),
    ("a time of day", "time", "12:34:56.000789"),
    ("a moment without a zone", "timestamp", "2024-02-29T12:34:56.000789"),
    ("a moment", "timestamptz", "2024-02-29T12:34:56+00:00"),
    ("an interval", "interval", "P1Y2M-3DT4H5M6.7S"),
    ("a UUID", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("JSON", "json", '{"b": [1, null]}'),
)


def values() -> list[Json]:
    return [
        value_case("null", None, "null", ""),
        value_case("zero", 0, "integer", "0"),
        value_case("a negative integer", -42, "integer", "-42"),
        value_case("the largest plain integer", SAFE - 1, "integer", str(SAFE - 1)),
        value_case("the first tagged integer", {"$int": str(SAFE)}, "integer", str(SAFE)),
        value_case("one no double holds", {"$int": str(SAFE + 1)}, "integer", str(SAFE + 1)),
        value_case("the first tagged negative integer", {"$int": str(-SAFE)}, "integer", str(-SAFE)),
        value_case("the largest integer of SQLite", {"$int": str(2**63 - 1)}, "integer", str(2**63 - 1)),
        value_case("the smallest integer of SQLite", {"$int": str(-(2**63))}, "integer", str(-(2**63))),
        value_case("a float", 0.1, "real", "0.1"),
        value_case("the smallest float", 5e-324, "real", "5e-324"),
        value_case("the largest float", 1.7976931348623157e308, "real", "1.7976931348623157e+308"),
        value_case("minus zero", -0.0, "real", "-0.0"),
        value_case("not a number", {"$float": "nan"}, "real", "nan"),
        value_case("infinity", {"$float": "inf"}, "real", "inf"),
        value_case("minus infinity", {"$float": "-inf"}, "real", "-inf"),
        value_case("empty text", "", "text", ""),
        value_case("text", "naïve — 日本 🌊", "text", "naïve — 日本 🌊"),
        value_case("text with a NUL and a line end", "a\0b\n", "text", "a\0b\n"),
        value_case("text that looks like a tag", '{"$int":"1"}', "text", '{"$int":"1"}'),
        value_case("no bytes", {"$bytes": ""}, "blob", ""),
        value_case("bytes", {"$bytes": "AP8QgA=="}, "blob", "00ff1080"),
        value_case("a decimal", {"$decimal": "12.3400"}, "decimal", "12.3400"),
        value_case(
            "a decimal no double holds", {"$decimal": "0.1000000000000000055"}, "decimal", "0.1000000000000000055"
        ),
        value_case("a decimal that is no number", {"$decimal": "NaN"}, "decimal", "NaN"),
        value_case("true", True, "boolean", "True"),
        value_case("false", False, "boolean", "False"),
        *(value_case(name, {f"${kind}": text}, kind, text) for name, kind, text in TEXTS),
        value_case("an address", {"$verbatim": ["inet", "10.0.0.1/24"]}, "verbatim", "10.0.0.1/24"),
        value_case("infinity as a date", {"$verbatim": ["date", "infinity"]}, "verbatim", "infinity"),
        value_case("an array", {"$array": [1, None, {"$decimal": "1.50"}, {"$array": ["x"]}]}, "array", "1||1.50|x"),
    ]


def files() -> dict[str, str]:
    """File name → text: what is committed must be just this."""
    at_random = made_at_random(seed=2)
    parts = {f"apply_random_{at // PART_CASES}.json": at_random[at : at + PART_CASES] for at in PARTS}
    vectors = {"apply.json": made_by_hand(), **parts, "values.json": values()}
    return {name: "[\n" + ",\n".join(map(_line, cases)) + "\n]\n" for name, cases in vectors.items()}


def _line(case: Json) -> str:
    return json.dumps(case, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
