"""Values inside an expression, that no row shows, are weighed too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.dialects.bind import bind
from headwater.dialects.postgres.kernels.exact import PostgresKernel
from headwater.model.errors import OverBudget
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from tests.engine.world import batch_of

TABLE = Table(
    "v",
    (Column("id", Type.INTEGER, "integer"), Column("t", Type.TEXT, "text", "C")),
    ("id",),
    dialect="postgres",
)
PREFIXED = replace(TABLE, columns=tuple(replace(one, name=f"v.{one.name}") for one in TABLE.columns), key=("v.id",))
ROWS = batch_of(PREFIXED, [(id, "ab") for id in range(10)])


def kernel(text: str) -> PostgresKernel:
    return PostgresKernel([bind(f"SELECT {text} AS v FROM v", [TABLE]).outputs[0].expr], PREFIXED)


@pytest.mark.parametrize(
    "expression",
    ["length(repeat(t, 20000000))", "length(lpad(t, 40000000))", "length(replace(t, 'a', repeat(t, 20000000)))"],
)
def test_they_are_too_many_bytes_together(expression: str) -> None:
    with pytest.raises(OverBudget, match="bytes of values at once"):
        kernel(expression).select(ROWS)


def test_each_batch_has_its_own_budget() -> None:
    once = kernel("length(repeat(t, 10000000))")
    for _ in range(3):
        assert once.select(ROWS).rows == [(20_000_000,)] * 10
