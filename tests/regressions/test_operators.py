"""Bugs of the differential operators, each by its smallest case."""

from __future__ import annotations

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.identity_columns import identity_of
from headwater.engine.rows.work import Work
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.sql.ir.expr import Call, Const, Expr
from headwater.sql.ir.relation import Distinct, Group, Join, Mark, Relation, RelColumn, Scan
from tests.engine.operators.oracle import Oracle
from tests.engine.operators.world import Folded, compare, deltas_of, rows_of, shown
from tests.engine.world import batch_of

INTEGER = Type.INTEGER


def table(name: str, width: int = 1, key: tuple[str, ...] = ()) -> Table:
    return Table(name, tuple(Column(f"c{n}", INTEGER, "INTEGER") for n in range(width)), key)


def scan(of: Table) -> Scan:
    columns = tuple(RelColumn(f"{of.name}.{name}", INTEGER, Affinity.INTEGER) for name in of.names)
    return Scan(of.name, of.names, columns, tuple(f"{of.name}.{name}" for name in of.key))


def rows_after(
    relation: Relation, tables: dict[str, Table], first: dict[str, list[Row]], *changes: Change
) -> list[str]:
    derived = Derived("d", relation, tables, Work())
    (loaded,) = derived.load({name: [batch_of(tables[name], rows)] for name, rows in first.items()})
    folded = Folded(derived)
    folded.load(rows_of(derived.table, loaded))
    by_table = {name: Transaction(0, tuple(c for c in changes if c.table == name)) for name in tables}
    after = folded.fold(derived.step(deltas_of(tables, [(1, by_table)])))
    return after.get(1, shown(rows_of(derived.table, loaded)))


def test_a_row_that_hashes_to_zero_is_not_taken_for_the_padding() -> None:
    """The dissolved match and the padded row that replaced it had one hash, and cancelled."""
    t, u = table("t"), table("u")
    left = Distinct(scan(t))
    relation = Join("right", left, scan(u), compare("=", scan(t).columns[0], scan(u).columns[0]))
    found = rows_after(relation, {"t": t, "u": u}, {"t": [(0,)], "u": [(0,)]}, Change("t", (0,), None))
    assert found == ["(None, 0)"]


def test_a_condition_that_is_null_pads_an_outer_join() -> None:
    t, u = table("t", 2), table("u", 2)
    one, other = scan(t), scan(u)
    less: Expr = Call("<", (Const(None, None), Const(1, INTEGER)), INTEGER)
    on = Call("and", (compare("=", one.columns[0], other.columns[0]), less), INTEGER)
    found = rows_after(Join("left", one, other, on), {"t": t, "u": u}, {"t": [(1, 1)], "u": [(1, 1)]})
    assert found == ["(1, 1, None, None)"]


def test_a_null_aware_mark_between_integers_is_tested_too() -> None:
    """One INTEGER with another needs no test, but then NULL was taken for a match."""
    t, u = table("t"), table("u")
    column = RelColumn("m", INTEGER)
    relation = Mark(scan(t), scan(u), compare("=", scan(t).columns[0], scan(u).columns[0]), column, null_aware=True)
    found = rows_after(relation, {"t": t, "u": u}, {"t": [(None,), (1,)], "u": [(1,)]})
    assert found == ["(1, 1)", "(None, None)"]


def test_a_full_join_of_groups_has_no_identity() -> None:
    """A group of NULLs on each side, both padded: two rows with the same keys."""
    t, u = table("t"), table("u")
    one, other = (
        Group(scan(each), (), (RelColumn(f"{each.name}.k", INTEGER, Affinity.INTEGER),), ()) for each in (t, u)
    )
    on = compare("=", one.key_columns[0], other.key_columns[0])
    assert identity_of(Join("left", one, other, on)) is not None
    assert identity_of(Join("full", one, other, on)) is None
    keyed = scan(table("v", 1, ("c0",)))
    assert identity_of(Join("full", keyed, other, on)) is not None


def test_the_oracle_agrees_that_null_pads() -> None:
    """What the cases above expect is what SQLite answers."""
    t, u = table("t"), table("u")
    relation = Join("full", scan(t), scan(u), compare("=", scan(t).columns[0], scan(u).columns[0]))
    rows: dict[str, list[Row]] = {"t": [(None,), (0,)], "u": [(None,), (0,)]}
    oracle = Oracle()
    assert rows_after(relation, {"t": t, "u": u}, rows) == shown(oracle.rows(relation, rows))
    oracle.close()
