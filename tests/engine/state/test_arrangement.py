"""The arrangement against a dictionary: what it finds, what it keeps, and how often it rewrites a row."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine.rows.work import Work
from headwater.engine.state.arrangement import Arrangement
from headwater.model.encoding.keys import encode_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, pack_any
from tests.engine.world import FUZZ, batch_of

TABLE = Table(
    "t", (Column("id", Type.INTEGER, "INTEGER"), Column("k", Type.TEXT, "TEXT"), Column("v", Type.INTEGER)), ("id",)
)


def absorb(arrangement: Arrangement, entries: list[tuple[Row, bool]]) -> None:
    """Entries (row, comes); its id is its identity."""
    rows = batch_of(TABLE, [row for row, _ in entries])
    hash = arrangement.hashes(arrangement.encode(rows), rows)
    id = np.array([row[0] for row, _ in entries], np.uint64)
    arrangement.absorb(hash, id, np.array([comes for _, comes in entries], np.bool_), rows, np.arange(len(entries)))


EDITS = st.lists(
    st.lists(st.tuples(st.integers(1, 12), st.none() | st.tuples(st.sampled_from("xyz"), st.integers(0, 3)))),
    max_size=12,
)


@settings(max_examples=150 * FUZZ, deadline=None, derandomize=FUZZ == 1)
@given(EDITS, st.booleans(), st.integers(1, 6))
def test_it_finds_what_a_dictionary_finds(
    batches: list[list[tuple[int, tuple[str, int] | None]]], keyed: bool, run_rows_min: int
) -> None:
    arrangement = Arrangement(TABLE, ("k",) if keyed else (), Work(), run_rows_min)
    model: dict[int, Row] = {}
    for batch in batches:
        entries: list[tuple[Row, bool]] = []
        for id, value in batch:
            if id in model:
                entries.append((model.pop(id), False))
            if value is not None:
                model[id] = (id, *value)
                entries.append((model[id], True))
        if entries:
            absorb(arrangement, entries)
        compare(arrangement, model, keyed)


def compare(arrangement: Arrangement, model: dict[int, Row], keyed: bool) -> None:
    for k in "xyz" if keyed else ("",):
        key = encode_row((k,), ("BINARY",)) if keyed else b""
        wanted = {id: row for id, row in sorted(model.items()) if not keyed or row[1] == k}
        gathered = arrangement.bucket(key)
        assert gathered.id.tolist() == list(wanted)
        assert [tuple(row.values()) for row in gathered.rows.to_pylist()] == list(wanted.values())
        found = arrangement.find([(arrangement.hash(key), id) for id in wanted])
        assert [tuple(row.values()) for row in found.to_pylist()] == list(wanted.values())
    for run in arrangement.runs:
        order = np.lexsort((run.id, run.hash))
        assert (order == np.arange(len(run))).all(), "a run is sorted"
    if arrangement.runs:
        assert arrangement.runs[0].live.all(), "the oldest run has nothing to shadow"
    assert sorted(arrangement.all().id.tolist()) == sorted(model)


def test_two_keys_of_one_hash_are_told_apart() -> None:
    arrangement = Arrangement(TABLE, ("k",), Work(), 1)
    rows = batch_of(TABLE, [(1, "x", 0), (2, "y", 0)])
    zeros = np.full(2, arrangement.hash(encode_row(("x",), ("BINARY",))), np.uint64)
    arrangement.absorb(zeros, np.array([1, 2], np.uint64), np.ones(2, np.bool_), rows, np.arange(2))
    assert arrangement.bucket(encode_row(("x",), ("BINARY",))).id.tolist() == [1]


def test_a_row_is_rewritten_about_log_n_times() -> None:
    work = Work()
    arrangement = Arrangement(TABLE, (), work, 16)
    count = 4096
    for id in range(1, count + 1):
        absorb(arrangement, [((id, "x", id), True)])
    assert work.rewritten <= count * math.log2(count)
    assert len(arrangement.runs) <= math.log2(count)


def test_a_new_schema_changes_rows_in_place() -> None:
    arrangement = Arrangement(TABLE, (), Work(), 2)
    absorb(arrangement, [((1, "x", 7), True), ((2, "y", None), True), ((3, "z", 9), True)])
    wider = Table(
        "t",
        (TABLE.columns[0], TABLE.columns[1], Column("v", Type.ANY), Column("w", Type.TEXT, filler=pack_any("d"))),
        ("id",),
    )
    arrangement.define(wider)
    gathered = arrangement.bucket(b"")
    assert gathered.rows.schema.equals(wider.arrow, check_metadata=True)
    assert gathered.rows.column("w").to_pylist() == ["d"] * 3
    assert gathered.rows.column("v").to_pylist()[1] is None
    assert isinstance(gathered.rows, pa.RecordBatch)
