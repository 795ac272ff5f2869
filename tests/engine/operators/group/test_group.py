"""group alone: SQLite's result types and values, exact sums that leave no trace, errors as the origin raises them."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.failures import Failure, FailureChange, Failures
from headwater.engine.operators.group import accumulators
from headwater.engine.operators.group.counts_and_sums import RunningOperator, runs
from headwater.engine.operators.group.group import FIRST_TX, GroupOperator
from headwater.engine.rows.batch import Batch, nothing, table_of
from headwater.engine.rows.work import Work
from headwater.engine.state import persistence
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import Call, ColumnRef, Const, OrderKey, Output
from headwater.sql.ir.relation import Aggregate, Group, RelColumn, Scan
from tests.engine.operators.alone import Update, batch, counted
from tests.engine.operators.world import rows_of
from tests.engine.world import FUZZ

K = RelColumn("k", Type.INTEGER, Affinity.INTEGER)
FUNCTIONS = ("count", "sum", "total", "avg", "min", "max")


def made(type: Type, functions: Sequence[str], *, distinct: bool = False, keyed: bool = True) -> tuple[Group, Table]:
    value = RelColumn("v", type)
    scan = Scan("t", ("k", "v"), (K, value))
    aggregates = tuple(
        Aggregate(RelColumn(f"a{n}", Type.ANY), name, (ColumnRef("v", type),), distinct)
        for n, name in enumerate(functions)
    )
    keys = (Output("g", ColumnRef("k", Type.INTEGER, Affinity.INTEGER)),) if keyed else ()
    columns = (RelColumn("g", Type.INTEGER, Affinity.INTEGER),) if keyed else ()
    return Group(scan, keys, columns, aggregates), table_of(scan.columns)


def sqlite(rows: Counter[Row], functions: Sequence[str], *, distinct: bool, keyed: bool) -> list[str]:
    memory = sqlite3.connect(":memory:")
    memory.execute("CREATE TABLE t (k INTEGER, v)")
    memory.executemany("INSERT INTO t VALUES (?, ?)", rows.elements())
    word = "DISTINCT " if distinct else ""
    outputs = ", ".join([*(["k"] if keyed else []), *(f"{name}({word}v)" for name in functions)])
    found = memory.execute(f"SELECT {outputs} FROM t{' GROUP BY k' if keyed else ''}").fetchall()
    memory.close()
    return sorted(map(repr, found))


def random_value(type: Type, rng: random.Random) -> Value:
    if rng.random() < 0.2:
        return None
    match type:
        case Type.INTEGER:
            return rng.choice((0, 1, -7, 2**52, 10**12))
        case Type.REAL:
            return rng.choice((0.5, -2.25, 1e6, 0.0))
        case Type.ANY:
            return rng.choice((1, 2.5, "3", "4.5x", "abc", b"6", "", 7))
        case Type.TEXT:
            return rng.choice(("a", "B", "12", "-3.5"))
        case Type.BLOB:
            return rng.choice((b"", b"1", b"zz"))
        case _:
            raise AssertionError(f"SQLite has no {type}")


@pytest.mark.parametrize("type", [Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB, Type.ANY])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("values_max", [0, 2, 256])
def test_values_and_types_are_sqlites(
    type: Type, distinct: bool, keyed: bool, values_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the values are: few in memory, many in their places."""
    monkeypatch.setattr(accumulators, "VALUES_MAX", values_max)
    monkeypatch.setattr(accumulators, "PIECES_MAX", values_max)
    limits = Limits(open_groups_max=values_max // 2)
    for seed in range(8 * FUZZ):
        rng = random.Random(seed)
        group, table = made(type, FUNCTIONS, distinct=distinct, keyed=keyed)
        operator, rows, out = GroupOperator(group, table, Work(), Failures(), limits), Counter[Row](), Counter[Row]()
        _add(out, operator, operator.step([nothing(table)]))
        for tx in range(1, 15):
            row: Row = (rng.choice((1, 2, None)), random_value(type, rng))
            if rows and rng.random() < 0.5:
                row = rng.choice(sorted(rows, key=repr))
            diff = -1 if rows[row] else 1
            rows[row] += diff
            rows = +rows
            _add(out, operator, operator.step([batch(table, [Update(tx, 0, row, diff)])]))
            assert sorted(map(repr, out.elements())) == sqlite(rows, FUNCTIONS, distinct=distinct, keyed=keyed)


def _add(out: Counter[Row], operator: GroupOperator, updates: Batch) -> None:
    for (_, row), diff in counted(operator.table, updates).items():
        out[row] += diff


def test_without_keys_there_is_one_row_from_the_beginning() -> None:
    group, table = made(Type.INTEGER, ("count", "sum", "total"), keyed=False)
    operator = GroupOperator(group, table, Work(), Failures())
    assert counted(operator.table, operator.step([nothing(table)])) == {(FIRST_TX, (0, None, 0.0)): 1}
    assert counted(operator.table, operator.step([nothing(table)])) == {}


def test_taking_back_what_was_added_leaves_no_trace_in_a_sum_of_doubles() -> None:
    group, table = made(Type.REAL, ("sum",))
    operator = GroupOperator(group, table, Work(), Failures())
    rows: list[Row] = [(1, 0.1), (1, 1e300), (1, 1e-300), (1, float("inf")), (1, float("-inf")), (1, 3.0)]
    operator.step([batch(table, [Update(1, 0, row, 1) for row in rows])])
    out = counted(operator.table, operator.step([batch(table, [Update(2, 0, row, -1) for row in rows[1:]])]))
    assert out == {(2, (1, None)): -1, (2, (1, 0.1)): 1}


@pytest.mark.parametrize("running", [False, True])
def test_a_sum_that_is_no_integer_is_an_error_until_the_row_leaves(running: bool) -> None:
    group, table = made(Type.INTEGER, ("sum",))
    if running:
        aggregate = Aggregate(RelColumn("a", Type.INTEGER), "sum", group.aggregates[0].args)
        group = Group(group.input, group.keys, group.key_columns, (aggregate,))
        assert runs(group, table)
    failures = Failures()
    operator = (RunningOperator if running else GroupOperator)(group, table, Work(), failures)
    operator.step([batch(table, [Update(1, 0, (1, 2**63 - 1), 1), Update(2, 0, (1, 1), 1), Update(4, 0, (1, 1), -1)])])
    failure = Failure("integer overflow", ())
    assert failures.settle() == [FailureChange(2, (failure,), ()), FailureChange(4, (), (failure,))]
    assert failures.reason is None


@pytest.mark.parametrize("values_max", [0, 2, 256])
def test_group_concat_of_distinct_values_compares_values_not_texts(
    values_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 and 1.0 are one value, as are 'a' and 'A' under NOCASE; the first in the order is shown."""
    monkeypatch.setattr(accumulators, "VALUES_MAX", values_max)
    monkeypatch.setattr(accumulators, "PIECES_MAX", values_max)
    order = (OrderKey(ColumnRef("v", Type.ANY)), OrderKey(Call("typeof", (ColumnRef("v", Type.ANY),), Type.TEXT)))
    aggregate = Aggregate(
        RelColumn("c", Type.TEXT), "group_concat", (ColumnRef("v", Type.ANY),), True, None, "NOCASE", order
    )
    group, table = made(Type.ANY, (), keyed=False)
    operator = GroupOperator(Group(group.input, (), (), (aggregate,)), table, Work(), Failures())
    operator.step([nothing(table)])
    values: list[Value] = [1, 1.0, "a", "A", "b", None]
    out = operator.step([batch(table, [Update(1, 0, (1, value), 1) for value in values])])
    assert counted(operator.table, out) == {(1, (None,)): -1, (1, ("1,A,b",)): 1}
    out = operator.step([batch(table, [Update(2, 0, (1, 1), -1), Update(2, 0, (1, "A"), -1)])])
    assert counted(operator.table, out) == {(2, ("1,A,b",)): -1, (2, ("1.0,a,b",)): 1}


def test_running_sums_are_those_of_the_accumulators() -> None:
    """The same groups by both operators, far beyond 2**53."""
    value = ColumnRef("v", Type.INTEGER)
    types = {"count": Type.INTEGER, "sum": Type.INTEGER, "total": Type.REAL, "avg": Type.REAL}
    aggregates = [Aggregate(RelColumn(name, type), name, (value,)) for name, type in types.items()]
    aggregates.append(Aggregate(RelColumn("every", Type.INTEGER), "count", (), filter=Const(1, Type.INTEGER)))
    group, table = made(Type.INTEGER, ())
    group = Group(group.input, group.keys, group.key_columns, tuple(aggregates))
    assert runs(group, table)
    rng = random.Random(5)
    both = [make(group, table, Work(), Failures()) for make in (RunningOperator, GroupOperator)]
    for start in range(1, 200 * FUZZ, 7):
        updates = [
            Update(start + n, 0, (rng.randrange(4), rng.choice((None, 2**60 - 1, -(2**61), 3))), 1) for n in range(7)
        ]
        one, other = (counted(each.table, each.step([batch(table, updates)])) for each in both)
        assert +one == +other and {k: v for k, v in one.items() if v < 0} == {k: v for k, v in other.items() if v < 0}


@pytest.mark.parametrize("values_max", [2, 256])
def test_groups_survive_on_disk(values_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulators, "VALUES_MAX", values_max)
    monkeypatch.setattr(accumulators, "PIECES_MAX", values_max)
    group, table = made(Type.ANY, FUNCTIONS)
    operator, again = (GroupOperator(group, table, Work(), Failures()) for _ in range(2))
    rng = random.Random(2)
    updates = [Update(1, 0, (rng.randrange(3), random_value(Type.ANY, rng)), 1) for _ in range(40)]
    first = operator.step([batch(table, updates)])
    for state, restored in zip(operator.state(), again.state(), strict=True):
        persistence.restore(restored, tmp_path, persistence.save(state, tmp_path))
    gone = again.step([batch(table, [Update(2, 0, update.row, -1) for update in updates])])
    assert sorted(rows_of(again.table, gone.rows)) == sorted(rows_of(operator.table, first.rows))
    assert not any(persistence.save(state, tmp_path) for state in again.state())


def test_a_change_costs_a_group_of_many_values_what_it_changes(tmp_path: Path) -> None:
    """Counted by what a save writes, and by what is read to find the next smallest."""
    group, table = made(Type.INTEGER, ("min", "max"), keyed=False)
    work = Work()
    operator = GroupOperator(group, table, work, Failures())
    count = 20_000
    operator.step([batch(table, [Update(1, 0, (1, n), 1) for n in range(count)])])
    memos, values = operator.state()
    persistence.save(memos, tmp_path)
    persistence.save(values, tmp_path)
    work.gathered = 0
    for n in range(500):
        out = operator.step([batch(table, [Update(2 + n, 0, (1, n), -1)])])
        assert (2 + n, (n + 1, count - 1)) in counted(operator.table, out)
    assert work.gathered < 4 * 500
    persistence.save(memos, tmp_path)
    persistence.save(values, tmp_path)
    assert sum(path.stat().st_size for path in map(tmp_path.joinpath, (run.file or "" for run in memos.runs))) < 2000
    assert len(values.runs[-1]) == 2 * 500
