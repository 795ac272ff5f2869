"""A derived relation as the dataflow meets it: errors that come and go, state on disk, work that follows effect."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.failures import Failure, FailureChange
from headwater.engine.rows.work import Work
from headwater.model.change import Change, Transaction
from headwater.model.errors import Corrupt
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.sql.ir.expr import Call, ColumnRef, Const, OrderKey, Output
from headwater.sql.ir.relation import (
    Aggregate,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    RelColumn,
    Scan,
    Top,
)
from tests.engine.operators.world import compare, deltas_of, ref, rows_of
from tests.engine.world import batch_of

INTEGER = Type.INTEGER
T, U = (
    Table(name, tuple(Column(each, INTEGER, "INTEGER") for each in ("id", "g", "v")), ("id",)) for name in ("t", "u")
)
TABLES = {"t": T, "u": U}


def scan(table: Table) -> Scan:
    columns = tuple(RelColumn(f"{table.name}.{name}", INTEGER, Affinity.INTEGER) for name in table.names)
    return Scan(table.name, table.names, columns, (f"{table.name}.id",))


TS, US = scan(T), scan(U)
ON = compare("=", TS.columns[1], US.columns[0])
SUMS = (
    Aggregate(RelColumn("n", INTEGER), "count", ()),
    Aggregate(RelColumn("s", INTEGER), "sum", (ref(TS.columns[2]),)),
)
KEYS = ((Output("k", ref(TS.columns[1])),), (RelColumn("k", INTEGER, Affinity.INTEGER),))
RELATIONS: dict[str, Relation] = {
    "filter": Filter(TS, Call(">", (ref(TS.columns[2]), Const(0, INTEGER)), INTEGER)),
    "join": Join("left", TS, US, ON),
    "semi": Exists(TS, US, ON),
    "aggregate": Group(TS, *KEYS, SUMS),
    "max": Group(TS, *KEYS, (Aggregate(RelColumn("m", INTEGER), "max", (ref(TS.columns[2]),)),)),
    "distinct": Distinct(Project(TS, (Output("p", ref(TS.columns[2])),), (RelColumn("p", INTEGER, Affinity.INTEGER),))),
    "top": Top(TS, (OrderKey(ref(TS.columns[2])), OrderKey(ref(TS.columns[0]))), 10),
}


def opened(relation: Relation, count: int) -> Derived:
    derived = Derived("d", relation, TABLES, Work())
    ids = np.arange(count)
    rows = pa.RecordBatch.from_arrays([pa.array(ids), pa.array(ids % 1000), pa.array(ids)], schema=T.arrow)
    derived.load({"t": [rows], "u": [batch_of(U, [(n, n, n) for n in range(1000)])]})
    return derived


def update(tx: int, old: Row | None, new: Row | None) -> tuple[int, dict[str, Transaction]]:
    return tx, {"t": Transaction(0, (Change("t", old, new),))}


@pytest.mark.parametrize("name", RELATIONS)
def test_a_change_costs_what_it_affects(name: str) -> None:
    """Law 10: rows gathered, emitted and rewritten, amortised, at most 3 · log2(n) for each row affected."""
    count, changes = 100_000, 128
    derived = opened(RELATIONS[name], count)
    work = derived._counters
    before = (work.gathered, work.emitted, work.rewritten)
    for n in range(changes):
        id = n * 700 + 5
        derived.step(deltas_of(TABLES, [update(n + 1, (id, id % 1000, id), (id, id % 1000, n - 60))]))
    spent = sum((work.gathered, work.emitted, work.rewritten)) - sum(before)
    affected = 2 * changes  # a row leaves and a row comes
    assert spent <= 3 * math.log2(count) * affected, (name, spent / changes)


def test_an_error_lasts_until_its_row_is_gone() -> None:
    absolute = Output("p", Call("abs", (ref(TS.columns[2]),), INTEGER))
    derived = Derived("d", Project(TS, (absolute,), (RelColumn("p", INTEGER),)), TABLES, Work())
    derived.load({"t": [batch_of(T, [(1, 1, -5)])]})
    assert not derived.failed
    least = -(2**63)
    derived.step(deltas_of(TABLES, [update(1, None, (2, 1, least))]))
    failure = Failure("integer overflow", (None,))
    assert derived.failures == [FailureChange(1, (failure,), ())] and derived.failed == [failure]
    came = derived.step(deltas_of(TABLES, [update(2, None, (3, 1, 4)), update(3, (2, 1, least), None)]))
    assert derived.failures == [FailureChange(3, (), (failure,))] and not derived.failed
    assert came is not None and came.batch.to_pylist() == [{"p": 4, "tx": 2, "diff": 1}], "its row had no result"


def test_an_error_in_a_condition_lasts_until_either_row_is_gone() -> None:
    on = Call("=", (Call("abs", (ref(TS.columns[2]),), INTEGER), ref(US.columns[2])), INTEGER)
    for relation in (Join("left", TS, US, on), Exists(TS, US, on)):
        derived = Derived("d", relation, TABLES, Work())
        derived.load({"t": [], "u": [batch_of(U, [(1, 1, 5)])]})
        bad: Row = (1, 1, -(2**63))
        derived.step(deltas_of(TABLES, [update(1, None, bad)]))
        assert derived.failed
        gone = (2, {"u": Transaction(0, (Change("u", (1, 1, 5), None),))})
        derived.step(deltas_of(TABLES, [gone]))
        assert not derived.failed and derived.failures[0].tx == 2


def test_failures_are_restored(tmp_path: Path) -> None:
    relation = Filter(TS, Call("abs", (ColumnRef("t.v", INTEGER),), INTEGER))
    derived = Derived("d", relation, TABLES, Work())
    bad: Row = (1, 1, -(2**63))
    derived.load({"t": [batch_of(T, [bad])]})
    again = Derived("d", relation, TABLES, Work())
    again.restore(tmp_path, derived.save(tmp_path).document)
    assert again.failed == derived.failed != []
    again.step(deltas_of(TABLES, [update(1, bad, None)]))
    assert not again.failed


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    derived = opened(RELATIONS["join"], 100)
    saved = derived.save(tmp_path)
    assert derived.save(tmp_path) == saved
    file = tmp_path / saved.files[0]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(Corrupt, match="damaged"):
        Derived("d", RELATIONS["join"], TABLES, Work()).restore(tmp_path, saved.document)
    file.unlink()
    with pytest.raises(Corrupt, match="cannot be read"):
        Derived("d", RELATIONS["join"], TABLES, Work()).restore(tmp_path, saved.document)


def test_rows_may_be_loaded_with_changes_made_since() -> None:
    diff = pa.field("diff", pa.int8())
    later = batch_of(T, [(1, 1, 1), (1, 1, 2)])
    changes = pa.RecordBatch.from_arrays([*later.columns, pa.array([-1, 1], pa.int8())], schema=T.arrow.append(diff))
    derived = Derived("d", TS, TABLES, Work())
    (rows,) = derived.load({"t": [batch_of(T, [(1, 1, 1), (2, 2, 2)]), changes]})
    assert sorted(rows_of(derived.table, rows)) == [(1, 1, 2), (2, 2, 2)]
