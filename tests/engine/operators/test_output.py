"""What subscribers are told of a row's identity: key changes and the seed's table of join transitions."""

from __future__ import annotations

import pytest

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.derived import Derived
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.work import Work
from headwater.engine.windows.changes import changes_of
from headwater.model.change import Change, Transaction
from headwater.model.encoding.keys import hash_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import Aggregate, Group, Join, JoinKind, Relation, RelColumn, Scan
from tests.engine.operators.world import Folded, compare, deltas_of
from tests.engine.world import batch_of

IS, JS = (
    Table(name, (Column("id", Type.INTEGER, "INTEGER"), Column("x", Type.INTEGER, "INTEGER")), ("id",))
    for name in ("i", "j")
)
TABLES = {"i": IS, "j": JS}
SCANS = {
    name: Scan(
        name,
        ("id", "x"),
        tuple(RelColumn(f"{name}.{each}", Type.INTEGER, Affinity.INTEGER) for each in ("id", "x")),
        (f"{name}.id",),
    )
    for name in TABLES
}


def joined(kind: JoinKind) -> Join:
    left, right = SCANS["i"], SCANS["j"]
    return Join(kind, left, right, compare("=", left.columns[1], right.columns[1]))


def changed(relation: Relation, i: list[Row], j: list[Row], *changes: Change) -> tuple[Folded, list[tuple[int, int]]]:
    """The relation after one transaction, and what it renamed."""
    derived = Derived("d", relation, TABLES, Work())
    rows = derived.load({"i": [batch_of(IS, i)], "j": [batch_of(JS, j)]})
    folded = Folded(derived)
    folded.load([tuple(row.values()) for batch in rows for row in batch.to_pylist()])
    by_table = {name: Transaction(0, tuple(c for c in changes if c.table == name)) for name in TABLES}
    delta = derived.step(deltas_of(TABLES, [(1, by_table)]))
    folded.fold(delta)
    renames = [] if delta is None or delta.renames is None else delta.renames.to_pylist()
    return folded, [(each["old_hash"], each["new_hash"]) for each in renames]


def test_the_dataflow_sees_a_transition_as_one_change() -> None:
    derived = Derived("d", joined("left"), TABLES, Work())
    derived.load({"i": [batch_of(IS, [(1, 1)])], "j": []})
    delta = derived.step(deltas_of(TABLES, [(1, {"j": Transaction(0, (Change("j", None, (7, 1)),))})]))
    assert delta is not None
    changes = changes_of(TableSchema.of(derived.table), delta, None)
    assert len(changes) == 1 and changes.old[0] >= 0 and changes.new[0] >= 0


def named(*values: Value) -> int:
    return hash_row(values, ["BINARY"] * len(values))


@pytest.mark.parametrize(
    ("j", "change", "old", "new"),
    [
        ([], Change("j", None, (7, 1)), (1, None), (1, 7)),  # materialised
        ([(7, 1)], Change("j", (7, 1), None), (1, 7), (1, None)),  # dissolved
        ([(7, 1)], Change("j", (7, 1), (7, 2)), (1, 7), (1, None)),  # dissolved, the partner stays elsewhere
        ([(7, 1)], Change("j", (7, 1), (8, 1)), (1, 7), (1, 8)),  # the partner's key changed
        ([(7, 1), (8, 2)], Change("i", (1, 1), (1, 2)), (1, 7), (1, 8)),  # target changed
        ([(7, 1)], Change("i", (1, 1), (2, 1)), (1, 7), (2, 7)),  # the row's own key changed
    ],
)
def test_a_join_transition_is_one_update(j: list[Row], change: Change, old: Row, new: Row) -> None:
    _, renames = changed(joined("left"), [(1, 1)], j, change)
    assert renames == [(named(*old), named(*new))]


def test_a_row_that_comes_or_goes_is_no_transition() -> None:
    gone, renames = changed(joined("left"), [(1, 1)], [], Change("i", (1, 1), None))
    assert renames == [] and not gone.rows
    came, renames = changed(joined("left"), [], [], Change("i", None, (1, 1)))
    assert renames == [] and dict(came.rows) == {"(1, 1, None, None)": 1}


def test_a_right_join_preserves_its_right_row() -> None:
    _, renames = changed(joined("right"), [], [(7, 1)], Change("i", None, (1, 1)))
    assert renames == [(named(7, None), named(7, 1))]


def test_matches_move_in_the_order_of_the_other_sides_keys() -> None:
    j: list[Row] = [(5, 1), (6, 1), (8, 2), (9, 2)]
    _, renames = changed(joined("inner"), [(1, 1)], j, Change("i", (1, 1), (1, 2)))
    assert sorted(renames) == sorted([(named(1, 5), named(1, 8)), (named(1, 6), named(1, 9))])


def test_two_rows_that_exchange_their_keys_are_two_updates() -> None:
    swap = (Change("i", (1, 1), (2, 1)), Change("i", (2, 5), (1, 5)))
    _, renames = changed(SCANS["i"], [(1, 1), (2, 5)], [], *swap)
    assert sorted(renames) == sorted([(named(1), named(2)), (named(2), named(1))])


def test_a_scalar_aggregate_is_one_row_that_changes() -> None:
    relation = Group(
        SCANS["i"], (), (), (Aggregate(RelColumn("n", Type.INTEGER), "sum", (ColumnRef("i.x", Type.INTEGER),)),)
    )
    folded, renames = changed(relation, [(1, 4)], [], Change("i", None, (2, 5)))
    assert dict(folded.rows) == {"(9,)": 1}
    assert renames == [(named(4), named(9))]
