"""The table store against a dictionary of rows: what its indexes find, what it keeps, and what it writes down."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.rows.work import Work
from headwater.engine.state.table import store_files
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.table_store import Indexed, TableStore
from headwater.model.encoding.keys import encode_row, hash_encoded
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, pack_any
from tests.engine.world import FUZZ, batch_of

TABLE = Table(
    "t", (Column("id", Type.INTEGER, "INTEGER"), Column("k", Type.TEXT, "TEXT"), Column("v", Type.INTEGER)), ("id",)
)
KEYS = (("k",), ("v",), ("k", "v"))
Model = dict[int, Row]
Edit = tuple[int, tuple[str | None, int] | None]


def store_of(run_rows_min: int, work: Work | None = None, keys: Iterable[tuple[str, ...]] = KEYS) -> TableStore:
    store = TableStore(TABLE, work or Work(), run_rows_min)
    for columns in keys:
        store.build(IndexKey.of(TABLE, columns))
    return store


def absorb(store: TableStore, entries: list[tuple[Row, bool]]) -> None:
    """Entries (row, comes); its id is its identity."""
    rows = batch_of(TABLE, [row for row, _ in entries])
    indexed = {key: Indexed(index.hash_rows(rows), index.keyed(rows)) for key, index in store.indexes.items()}
    id = np.array([row[0] for row, _ in entries], np.uint64)
    store.absorb(id, np.array([comes for _, comes in entries], np.bool_), rows, indexed)


def edit(store: TableStore, model: Model, edits: list[Edit]) -> None:
    entries: list[tuple[Row, bool]] = []
    for id, value in edits:
        if id in model:
            entries.append((model.pop(id), False))
        if value is not None:
            model[id] = (id, *value)
            entries.append((model[id], True))
    if entries:
        absorb(store, entries)


def tuples(rows: pa.RecordBatch) -> list[Row]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def compare(store: TableStore, model: Model) -> None:
    for columns in KEYS:
        at = [TABLE.index(name) for name in columns]
        _compare_index(store, columns, {id: tuple(row[n] for n in at) for id, row in model.items()}, model)
    everything = Arrangement.of(store, ()).bucket(b"")
    assert everything.id.tolist() == sorted(model)
    assert tuples(everything.rows) == [model[id] for id in sorted(model)]
    assert tuples(store.find(list(model))) == list(model.values())
    assert len(store) == len(model)
    assert store.place_of(99) is None


def _compare_index(store: TableStore, columns: tuple[str, ...], keys: dict[int, Row], model: Model) -> None:
    """Each key by itself, and all of them at once, also those that no row has."""
    arrangement, key = Arrangement.of(store, columns), IndexKey.of(TABLE, columns)
    values: list[Row] = [
        (k,) if columns == ("k",) else (v,) if columns == ("v",) else (k, v) for k in "xyz" for v in range(4)
    ]
    encoded = [encode_row(value, ("BINARY",) * len(columns)) for value in dict.fromkeys(values)]
    query, places = store.probe(key, np.array([hash_encoded(each) for each in encoded], np.uint64))
    hits = sorted(zip(query.tolist(), store.heap.ids(places).tolist(), strict=True))
    assert tuples(store.heap.rows(places)) == [model[id] for id in store.heap.ids(places).tolist()]
    wanted = []
    for n, value in enumerate(dict.fromkeys(values)):
        mine = sorted(id for id, key in keys.items() if key == value)
        gathered = arrangement.bucket(encoded[n])
        assert gathered.id.tolist() == mine
        assert tuples(gathered.rows) == [model[id] for id in mine]
        assert tuples(arrangement.find([(0, id) for id in mine])) == tuples(gathered.rows)
        wanted += [(n, id) for id in mine]
    assert hits == wanted


VALUES = st.tuples(st.sampled_from(("x", "y", "z", None)), st.integers(0, 3))
EDITS = st.lists(st.lists(st.tuples(st.integers(1, 14), st.none() | VALUES), max_size=20), max_size=12)


@settings(max_examples=120 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(EDITS, st.integers(1, 8), st.booleans())
def test_it_finds_what_a_dictionary_finds(batches: list[list[Edit]], run_rows_min: int, vacuum: bool) -> None:
    store, model = store_of(run_rows_min), Model()
    for batch in batches:
        edit(store, model, batch)
        if vacuum:
            store.vacuum()
            assert store.heap.size == len(model), "a vacuum leaves nothing of rows that are gone"
        compare(store, model)


@settings(max_examples=60 * FUZZ, deadline=None, derandomize=FUZZ <= 1)
@given(EDITS, st.integers(1, 8))
def test_an_index_that_is_built_later_finds_the_same(batches: list[list[Edit]], run_rows_min: int) -> None:
    store, model = store_of(run_rows_min, keys=()), Model()
    for n, batch in enumerate(batches):
        edit(store, model, batch)
        if n < len(KEYS):
            store.build(IndexKey.of(TABLE, KEYS[n]))
    for columns in KEYS[len(batches) :]:
        store.build(IndexKey.of(TABLE, columns))
    compare(store, model)


@settings(max_examples=40 * FUZZ, deadline=None, derandomize=FUZZ <= 1, suppress_health_check=list(HealthCheck))
@given(batches=EDITS, run_rows_min=st.integers(1, 8))
def test_it_goes_on_from_its_files(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Edit]], run_rows_min: int
) -> None:
    directory = tmp_path_factory.mktemp("state")
    store, model = store_of(run_rows_min), Model()
    for batch in batches:
        edit(store, model, batch)
        files = store_files.save(store, directory)
        for run in store_files.runs_inside(store, directory):
            run.let_go()
        compare(store, model)
        assert not list(store_files.runs_inside(store, directory)), "all of it is in files"
        store = store_files.load(directory, files, TABLE, Work(), run_rows_min)
        compare(store, model)


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    store, model = store_of(16), Model()
    edit(store, model, [(id, ("x", id % 4)) for id in range(1, 1000)])
    before = store_files.save(store, tmp_path)
    edit(store, model, [(5, ("y", 1))])
    after = store_files.save(store, tmp_path)
    assert after.chunks[0] == before.chunks[0] and after.identity[0] == before.identity[0]
    assert len(set(after.names) - set(before.names)) == 3 + len(KEYS), "a chunk, a death, and a run of each index"


def test_two_keys_of_one_hash_are_told_apart() -> None:
    store = store_of(1, keys=(("k",),))
    key = IndexKey.of(TABLE, ("k",))
    rows = batch_of(TABLE, [(1, "x", 0), (2, "y", 0)])
    hash = np.full(2, hash_encoded(encode_row(("x",), ("BINARY",))), np.uint64)
    store.absorb(np.array([1, 2], np.uint64), np.ones(2, np.bool_), rows, {key: Indexed(hash, None)})
    assert Arrangement.of(store, ("k",)).bucket(encode_row(("x",), ("BINARY",))).id.tolist() == [1]


def test_only_rows_that_an_index_takes_are_held_where_it_is_not_whole() -> None:
    store = TableStore(TABLE, Work(), 4, whole=False)
    index = store.build(IndexKey.of(TABLE, ("k",)))
    rows = batch_of(TABLE, [(1, "x", 0), (2, "y", 0), (3, None, 0)])
    mine = np.array([True, False, False])
    came, gone = np.ones(3, np.bool_), np.zeros(3, np.bool_)
    id = np.array([1, 2, 3], np.uint64)
    store.absorb(id, came, rows, {index.key: Indexed(index.hash_rows(rows), mine)})
    assert len(store) == 1
    store.absorb(id, gone, rows, {index.key: Indexed(index.hash_rows(rows), mine)})
    assert len(store) == 0


def test_a_row_is_rewritten_about_log_n_times() -> None:
    work = Work()
    store = store_of(16, work, keys=(("k",),))
    count = 4096
    for id in range(1, count + 1):
        absorb(store, [((id, "x", id), True)])
    assert work.rewritten <= count * math.log2(count)
    assert work.reindexed <= 2 * count * math.log2(count), "in two indexes"
    assert len(store.heap.chunks) <= math.log2(count)


def test_rows_that_are_gone_are_at_most_as_many_as_there_are() -> None:
    work = Work()
    store, model = store_of(16, work), Model()
    for round in range(200):
        edit(store, model, [(id, ("x", round % 4)) for id in range(1, 65)])
        assert store.heap.size <= 2 * len(model) + 64
    assert work.rewritten <= 200 * 64 * 8, "a vacuum is paid for by the rows that went"


def test_a_new_schema_changes_rows_in_place() -> None:
    store = store_of(2)
    absorb(store, [((1, "x", 7), True), ((2, "y", None), True), ((3, "z", 9), True)])
    wider = Table(
        "t",
        (TABLE.columns[0], TABLE.columns[1], Column("v", Type.ANY), Column("w", Type.TEXT, filler=pack_any("d"))),
        ("id",),
    )
    store.define(wider)
    gathered = Arrangement.of(store, ()).bucket(b"")
    assert gathered.rows.schema.equals(wider.arrow, check_metadata=True)
    assert gathered.rows.column("w").to_pylist() == ["d"] * 3
    assert gathered.rows.column("v").to_pylist()[1] is None
