"""Conditions on PostgreSQL over whole batches are what they are row by row; a server judges the rows elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.dialects.bind import bind
from headwater.dialects.postgres.kernels.arrow import compile_condition, compile_plain
from headwater.dialects.postgres.kernels.exact import PostgresKernel
from headwater.engine.expressions.evaluator import Expressions, conformed
from headwater.model.schema import Column, Table
from headwater.model.size import SMALL
from headwater.model.value import Type, from_array
from headwater.model.verbatim import Verbatim
from headwater.sql.ir.expr import Call, Case, ColumnRef, Const, Expr
from tests.engine.world import batch_of
from tests.support.fuzz import tries

_KINDS: dict[str, tuple[Type, str, list[Any], tuple[str, ...]]] = {
    "n": (Type.INTEGER, "integer", [0, 1, -5, 2**31 - 1], ("0", "1", "-5", "3000000000")),
    "t": (Type.TEXT, "text", ["", "a", "é", "\N{GRINNING FACE}", "b"], ("''", "'a'", "'é'")),
    "p": (Type.BOOLEAN, "boolean", [True, False], ("TRUE", "'f'")),
    "u": (Type.UUID, "uuid", [UUID(int=1), UUID(int=2)], (f"'{UUID(int=1)}'", f"'{UUID(int=3)}'")),
    "d": (Type.DATE, "date", [date(2024, 2, 29), Verbatim("date", "infinity")], ("'2024-02-29'", "'-infinity'")),
    "c": (Type.TIME, "time without time zone", [time(1, 2), Verbatim("time", "24:00:00")], ("'01:02'",)),
    "s": (Type.TIMESTAMP, "timestamp without time zone", [datetime(2024, 1, 1)], ("'2024-01-01'", "'infinity'")),
    "z": (Type.TIMESTAMPTZ, "timestamp with time zone", [datetime(2024, 1, 1, tzinfo=UTC)], ("'2024-01-01 01:00+01'",)),
    "b": (Type.BLOB, "bytea", [b"", b"a", b"\xff"], ("'a'", "'\\xff'")),
}
_COLUMNS = [
    Column(f"v.{name}{side}", type, declared, "C" if type is Type.TEXT else "BINARY")
    for name, (type, declared, _, _) in _KINDS.items()
    for side in "12"
]
_BARE = Table(
    "v",
    (Column("id", Type.INTEGER, "integer"), *(Column(c.name[2:], c.type, c.declared, c.collation) for c in _COLUMNS)),
    ("id",),
    dialect="postgres",
)
_TABLE = Table("v", (Column("v.id", Type.INTEGER, "integer"), *_COLUMNS), ("v.id",), dialect="postgres")
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")


def _atoms() -> st.SearchStrategy[str]:
    def of(name: str) -> st.SearchStrategy[str]:
        constants = st.sampled_from(_KINDS[name][3])
        compared = st.builds(
            lambda sign, other: f"{name}1 {sign} {other}", st.sampled_from(_SIGNS), constants | st.just(f"{name}2")
        )
        lists = st.lists(constants | st.just("NULL"), min_size=1, max_size=3).filter(
            lambda items: set(items) != {"NULL"}
        )
        member = lists.map(lambda items: f"{name}1 IN ({', '.join(items)})")
        return compared | member | st.sampled_from([f"{name}1 IS NULL", f"{name}2 IS NOT NULL"])

    return st.sampled_from(sorted(_KINDS)).flatmap(of)


_CONDITIONS = st.recursive(
    _atoms(),
    lambda inner: (
        inner.map(lambda one: f"NOT ({one})")
        | st.builds(lambda one, sign, other: f"({one}) {sign} ({other})", inner, st.sampled_from(["AND", "OR"]), inner)
    ),
    max_leaves=4,
)
_VALUES = [st.none() | st.sampled_from(values) for _, _, values, _ in _KINDS.values() for _ in "12"]
_ROWS = st.lists(st.tuples(*_VALUES), min_size=SMALL.expression_rows + 1, max_size=SMALL.expression_rows + 9)


@pytest.mark.slow
@tries(150)
@given(condition=_CONDITIONS, rows=_ROWS)
def test_a_batch_answers_as_its_rows_do(condition: str, rows: list[tuple[Any, ...]]) -> None:
    (where,) = [bind(f"SELECT {condition} AS v FROM v", [_BARE]).outputs[0].expr]
    batch = batch_of(_TABLE, [(number, *row) for number, row in enumerate(rows)])
    for expr in (where, _as_filtered(where)):
        assert compile_condition(expr, _TABLE) is not None
        selected = PostgresKernel([expr], _TABLE).select(batch)
        type = expr.type or Type.ANY
        (wanted,), _ = conformed(selected.rows, [type], selected.failed)
        found = Expressions([expr], _TABLE).evaluate(batch)
        assert from_array(found.columns[0], type) == from_array(wanted, type)
        assert found.columns[0].type == wanted.type


def _as_filtered(where: Expr) -> Expr:
    return Case(((where, Const(1, Type.INTEGER)),), Const(None, None), Type.INTEGER)


@pytest.mark.parametrize("op", ["=", "<", ">=", "in"])
def test_doubles_without_nan_are_compared_as_python_compares_them(op: str) -> None:
    """The two zeros are one value; NULL is in nothing."""
    values = [0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), None]
    table = Table("r", (Column("x", Type.REAL, "double precision"),), dialect="postgres")
    asked = (0.0, 1.5) if op == "in" else (0.0,)
    condition = Call(op, (ColumnRef("x", Type.REAL), *(Const(each, Type.REAL) for each in asked)), Type.INTEGER)
    kernel = compile_plain(condition, table)
    assert kernel is not None
    assert compile_condition(condition, table) is None, "with NaN among them only rows are exact"
    passed = kernel.evaluate(batch_of(table, [(each,) for each in values])).fill_null(False).to_pylist()
    tests: dict[str, Callable[[float], bool]] = {
        "=": lambda value: value == 0,
        "<": lambda value: value < 0,
        ">=": lambda value: value >= 0,
        "in": lambda value: value in asked,
    }
    assert passed == [value is not None and tests[op](value) for value in values]
