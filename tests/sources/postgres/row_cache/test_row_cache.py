"""The rows that are cached beside the source, against a dictionary: written, settled, rewound, merged and reopened at
any moment, by rows or by runs, with keys of every kind and with hashes that collide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.encoding.keys import Uint64s
from headwater.model.errors import SourceError
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, to_array
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.row_cache import runs
from headwater.sources.postgres.row_cache.durable_rows import worth_merging
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.row_cache.runs import RowKeys, run_of_rows
from tests.support.fuzz import tries

_ID, _A = Column("id", Type.INTEGER), Column("a", Type.TEXT)
_NUMBER, _AT = Column("id", Type.NUMERIC), Column("a", Type.REAL)


def _captured(columns: tuple[Column, ...], identity: tuple[int, ...], key: tuple[str, ...]) -> CapturedTable:
    return CapturedTable(7, Table("t", columns, key), (0,) * len(columns), identity, 0)


KEYED = _captured((_ID, _A), (0,), ("id",))
EXACTLY = _captured((_NUMBER, _A), (0,), ("id",))
BOTH = _captured((_ID, _A), (1, 0), ("a", "id"))
KEYLESS = _captured((_NUMBER, _AT), (0, 1), ())
_IDS = st.integers(0, 12)
_ROWS: dict[str, tuple[CapturedTable, st.SearchStrategy[Any]]] = {
    "keyed": (KEYED, st.tuples(_IDS, st.sampled_from(["", "x", None]))),
    "numeric": (EXACTLY, st.tuples(st.sampled_from([Decimal(n) for n in ("1", "1.0", "2", "3.50")]), st.just("x"))),
    "both": (BOTH, st.tuples(_IDS, st.sampled_from("xyz"))),
    "keyless": (
        KEYLESS,
        st.tuples(st.sampled_from([Decimal("1"), Decimal("1.0"), None]), st.sampled_from([0.0, -0.0])),
    ),
}


@dataclass
class Model:
    """What must be there now, and what was at every position since the one that is settled for sure."""

    capture: CapturedTable
    position: int = 0
    rows: dict[bytes, CachedRow] = field(default_factory=dict)
    then: dict[int, dict[bytes, CachedRow]] = field(default_factory=lambda: {0: {}})

    def write(self, written: dict[bytes, CachedRow]) -> None:
        self.position += 10
        self.rows = {key: held for key, held in (self.rows | written).items() if held.count}
        self.then[self.position] = dict(self.rows)


def _holds(row_cache: RowCache, model: Model, asked: list[Row]) -> None:
    capture = model.capture
    for row in asked:
        held = row_cache.held(capture, capture.named(row))
        assert held == model.rows.get(capture.key(row))


def _holds_all(row_cache: RowCache, model: Model) -> None:
    found = list(row_cache.all(model.capture))
    assert {model.capture.key(held.row): held for held in found} == model.rows
    assert len(found) == len(model.rows)


@pytest.fixture(params=[64, 1], ids=["hashes", "collisions"])
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many bits of a hash are left."""
    kept = np.uint64((1 << request.param) - 1)
    hashes, hash = RowKeys.hashes, RowKeys.hash

    def few(self: RowKeys, names: Sequence[pa.Array]) -> Uint64s:
        return hashes(self, names) & kept

    monkeypatch.setattr(RowKeys, "hashes", few)
    monkeypatch.setattr(RowKeys, "hash", lambda self, values: hash(self, values) & kept)
    monkeypatch.setattr(runs, "CHUNK_ROWS", 3)
    yield request.param


@pytest.mark.parametrize("kind", _ROWS)
@pytest.mark.usefixtures("bits")
def test_keeping_is_a_dictionary_that_survives(kind: str) -> None:
    capture, rows = _ROWS[kind]

    @tries(25)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        with TemporaryDirectory() as directory:
            _live(Path(directory), capture, rows, data)

    check()


def _live(directory: Path, capture: CapturedTable, rows: st.SearchStrategy[Row], data: st.DataObject) -> None:
    row_cache, model = RowCache(directory), Model(capture)
    row_cache.seed(capture, [])
    row_cache.begin(capture)
    steps = st.sampled_from(["rows", "rows", "run", "settle", "settle", "tidy", "rewind", "reopen", "look", "freeze"])
    for step in data.draw(st.lists(steps, max_size=25)):
        match step:
            case "rows" | "run":
                _write(row_cache, model, data.draw(st.lists(st.tuples(rows, st.integers(0, 2)), max_size=6)), step)
            case "settle":
                row_cache.settle(data.draw(st.integers(0, model.position + 5)))
            case "tidy":
                row_cache.tidy()
            case "freeze":
                row_cache.freeze()
            case "rewind":
                row_cache.rewind()
                _go_back(row_cache, model)
            case "reopen":
                row_cache = RowCache(directory)
                _go_back(row_cache, model)
            case _:
                _holds_all(row_cache, model)
        assert row_cache.position <= model.position + 5
        asked = data.draw(st.lists(rows, max_size=4))
        with row_cache.looking_ahead([(capture, capture.named(row)) for row in asked * 5]):
            _holds(row_cache, model, asked)
    _holds_all(row_cache, model)


def _go_back(row_cache: RowCache, model: Model) -> None:
    """To what is settled: the last position at or before that of what is on disk."""
    position = max(at for at in model.then if at <= row_cache.position)
    model.rows = dict(model.then[position])
    model.position = max(position, row_cache.position)
    model.then = {at: rows for at, rows in model.then.items() if at <= position} | {model.position: dict(model.rows)}


def _write(row_cache: RowCache, model: Model, chosen: list[tuple[Row, int]], step: str) -> None:
    capture = model.capture
    counts = {
        capture.key(row): CachedRow(row, count if not capture.table.key else min(count, 1)) for row, count in chosen
    }
    first = model.position + 10
    model.write(counts)
    if step == "rows":
        row_cache.write(model.position, {(capture.oid, key): held for key, held in counts.items()})
    elif counts:
        model.write({})  # a run of two transactions: they settle together
        del model.then[first]
        row_cache.freeze()
        run = run_of_rows(row_cache.keyed(capture), list(counts.values()))
        row_cache.write_runs(first, model.position, {capture.oid: run})


def test_a_seed_counts_equal_rows_over_all_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.postgres.row_cache.durable_rows.SEED_ROWS_MAX", 3)
    row_cache, keyed = RowCache(tmp_path), RowKeys(KEYLESS)
    rows: list[Row] = [
        (Decimal("1"), 0.0),
        (Decimal("1.0"), 0.0),
        (Decimal("1"), 0.0),
        (None, 2.0),
        (Decimal("1"), 0.0),
    ]
    batches = [_batch(keyed, rows[at : at + 2]) for at in range(0, 5, 2)]
    row_cache.seed(KEYLESS, batches)
    row_cache.begin(KEYLESS)
    assert {str(held.row): held.count for held in row_cache.all(KEYLESS)} == Counter(map(str, rows))
    assert len(list((tmp_path / "postgres").glob("*.arrow"))) == 1


def _batch(keyed: RowKeys, rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [to_array(values, column.type) for values, column in zip(columns, keyed.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=keyed.schema)


def test_rows_older_than_a_column_hold_its_default(tmp_path: Path) -> None:
    row_cache = RowCache(tmp_path)
    row_cache.begin(KEYED)
    row_cache.write(10, {(7, KEYED.key((1, "x"))): CachedRow((1, "x"), 1)})
    row_cache.settle(10)
    row_cache.write(20, {(7, KEYED.key((2, "y"))): CachedRow((2, "y"), 1)})
    table = Table(
        "t", (*KEYED.table.columns, Column("b", Type.INTEGER, filler=b"\x01" + bytes(7) + b"\x05")), ("id",), 1
    )
    wider = CapturedTable(7, table, (0, 0, 0), (0,), 0)
    row_cache.reshape(30, wider)
    row_cache.settle(20)
    row_cache.write(30, {(7, KEYED.key((3, "z"))): CachedRow((3, "z", 9), 1)})
    assert sorted(held.row for held in row_cache.all(wider)) == [(1, "x", 5), (2, "y", 5), (3, "z", 9)]
    row_cache.rewind()
    assert row_cache.captures == {7: KEYED}
    assert sorted(held.row for held in row_cache.all(KEYED)) == [(1, "x"), (2, "y")]


def test_runs_are_merged_as_they_grow() -> None:
    assert worth_merging([]) == 0
    assert worth_merging([5]) == 1
    assert worth_merging([100, 10]) == 2
    assert worth_merging([100, 31, 20]) == 0
    assert worth_merging([1000, 30, 20]) == 1


def test_what_an_older_version_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres.db").touch()
    with pytest.raises(SourceError, match="older"):
        RowCache(tmp_path)


def test_nothing_is_forgotten_that_could_not_be_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row_cache, model = RowCache(tmp_path), Model(KEYED)
    row_cache.begin(KEYED)
    _write(row_cache, model, [((1, "x"), 1), ((2, "y"), 1)], "rows")
    before = deepcopy(model)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("headwater.sources.postgres.row_cache.durable_rows.write_checked", full)
        with pytest.raises(OSError, match="No space"):
            row_cache.settle(model.position)
    _holds_all(row_cache, before)
    row_cache.settle(model.position)
    _holds_all(RowCache(tmp_path), before)
