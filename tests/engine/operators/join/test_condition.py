"""Join conditions between columns of any two types and affinities: SQLite converts, or does not, and so do we."""

from __future__ import annotations

import itertools
import random

import pytest

from headwater.dialects.sqlite.affinity import Affinity
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.join.condition import Condition
from headwater.engine.rows.batch import table_of
from headwater.engine.rows.work import Work
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import Call
from headwater.sql.ir.relation import Join, RelColumn, Scan
from tests.engine.operators.oracle import Oracle
from tests.engine.operators.world import compare, ref, rows_of, shown
from tests.engine.world import FUZZ, batch_of

Kind = tuple[str, Type, tuple[Value, ...]]
KINDS: tuple[Kind, ...] = (
    ("INTEGER", Type.INTEGER, (0, 1, 2**53 + 1, 2**53, None)),
    ("REAL", Type.REAL, (0.0, 1.0, 0.5, 2.0**53, 1e300, None)),
    ("TEXT", Type.TEXT, ("1", "1.0", "a", "A", "a ", "0", None)),
    ("BLOB", Type.BLOB, (b"", b"1", b"a", None)),
    ("INTEGER", Type.ANY, (1, "a", 0.5, b"1", None)),
    ("TEXT", Type.ANY, ("1", "1.0", b"1", None)),
    ("NUMERIC", Type.ANY, (1, 0.5, "a", b"a", None)),
    ("BLOB", Type.ANY, (1, 1.0, "1", b"1", "a", -1, 2**53 + 1, 2.0**53, None)),
    ("BLOB", Type.INTEGER, (1, 0, None)),
    ("BLOB", Type.TEXT, ("1", "a", "A", None)),
)


def scan(name: str, kind: Kind, collation: str) -> tuple[Table, Scan]:
    affinity, type, _ = kind
    columns = (Column("c0", Type.INTEGER, "INTEGER"), Column("c1", type, affinity, collation))
    shown_as = (
        RelColumn(f"{name}.id", Type.INTEGER, Affinity.INTEGER),
        RelColumn(f"{name}.v", type, Affinity(affinity), collation),
    )
    return Table(name, columns, ("c0",)), Scan(name, ("c0", "c1"), shown_as, (f"{name}.id",))


@pytest.mark.parametrize("sign", ["=", "is"])
@pytest.mark.parametrize("collation", ["BINARY", "NOCASE", "RTRIM"])
def test_any_two_columns_join_as_in_sqlite(sign: str, collation: str) -> None:
    oracle = Oracle()
    for seed, (one, other) in enumerate(itertools.product(KINDS, KINDS)):
        rng = random.Random(seed)
        (left, left_scan), (right, right_scan) = scan("a", one, collation), scan("b", other, "BINARY")
        rows: dict[str, list[Row]] = {
            name: [(n, rng.choice(kind[2])) for n in range(10 * FUZZ)] for name, kind in (("a", one), ("b", other))
        }
        relation = Join("full", left_scan, right_scan, compare(sign, left_scan.columns[1], right_scan.columns[1]))
        derived = Derived("d", relation, {"a": left, "b": right}, Work())
        (loaded,) = derived.load({"a": [batch_of(left, rows["a"])], "b": [batch_of(right, rows["b"])]})
        assert shown(rows_of(derived.table, loaded)) == shown(oracle.rows(relation, rows)), (one, other)
    oracle.close()


def test_an_equation_is_indexed_where_neither_side_is_converted() -> None:
    def indexed(one: RelColumn, other: RelColumn) -> bool:
        on = Call("=", (ref(other), ref(one)), Type.INTEGER)
        return bool(Condition(table_of([one]), table_of([other]), on).equations)

    number, real = RelColumn("n", Type.INTEGER, Affinity.INTEGER), RelColumn("r", Type.REAL, Affinity.REAL)
    text, any = RelColumn("t", Type.TEXT, Affinity.TEXT), RelColumn("a", Type.ANY, Affinity.BLOB)
    computed = RelColumn("c", Type.TEXT, Affinity.BLOB)
    assert indexed(number, real) and indexed(text, computed) and indexed(any, RelColumn("b", Type.ANY, Affinity.BLOB))
    assert not indexed(number, text) and not indexed(text, any) and not indexed(number, any)
