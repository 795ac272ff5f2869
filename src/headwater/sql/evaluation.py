"""The contract between the engine and a dialect: expressions and aggregates, computed as the source computes them.

The engine finds the evaluator of a dialect by the dialect's name, and never asks which one it has. Nothing is computed
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.schema import Table
from headwater.model.value import Row, Type, Value
from headwater.sql.ir.expr import ColumnRef, Expr
from headwater.sql.ir.relation import Aggregate, RelColumn

ArrowColumn = Any  # pa.Array or pa.Scalar: pyarrow has no types
Run = Callable[[pa.RecordBatch], ArrowColumn]


INTEGER_OVERFLOW = "integer overflow"


class EvaluationError(Exception):
    """The value of a row or a group cannot be computed; the text is the source's own."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An expression over whole batches. `truth` marks Arrow booleans; at the edge they become INTEGER 1 and 0."""

    run: Run
    type: Type
    truth: bool = False

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Raises `pa.ArrowInvalid` where the batch is in doubt."""
        result = self.run(batch)
        if self.truth:
            result = pc.cast(result, pa.int64())
        return result if isinstance(result, pa.Array) else pa.repeat(result, batch.num_rows)


def any_of(tests: Sequence[Kernel]) -> Run:
    """Whether one of them holds, in three-valued logic: a list may be long, so they are no tree of calls."""
    return lambda batch: reduce(pc.or_kleene, (test.run(batch) for test in tests))


@dataclass(frozen=True, slots=True)
class Selected:
    """A row of values per row of input; `failed` says why some have none."""

    rows: list[Row]
    failed: dict[int, str]


class RowEvaluator(Protocol):
    """Several expressions, evaluated row by row, exactly. A row that makes the source raise fails alone."""

    def select(self, batch: pa.RecordBatch) -> Selected: ...


class Accumulator(Protocol):
    """What a group knows of the values of one aggregate. Values come and go, in any order and number."""

    def add(self, value: Any, weight: int) -> None: ...

    def result(self) -> Value:
        """Raises `EvaluationError` where the source would raise."""

    def dump(self) -> Any:
        """Lists, ints of 64 bits, texts and bytes."""

    def load(self, dumped: Any) -> None: ...


@runtime_checkable
class AddsAll(Protocol):
    """An accumulator that takes many values at once for less than one by one."""

    def add_all(self, values: Sequence[Any]) -> None:
        """As `add` of each, with weight 1."""


class Evaluator(Protocol):
    """The evaluation half of a dialect."""

    def rows(self, exprs: Sequence[Expr], table: Table) -> RowEvaluator: ...

    def kernel(self, expr: Expr, table: Table) -> Kernel | None:
        """None where only the evaluation of single rows is exact."""

    def plain_kernel(self, condition: Expr, table: Table) -> Kernel | None:
        """Of comparisons of integers, doubles, texts or blobs with constants, where no double is NaN."""

    def compares_unchanged(self, one: ColumnRef, other: ColumnRef) -> bool:
        """Whether two columns are compared as they are: then equal ones have equal hashes."""

    def looks_alike(self, column: RelColumn) -> bool:
        """Whether equal values of a column look the same: where they do, one of them stands for all."""

    def arguments(self, aggregate: Aggregate) -> Sequence[Expr]:
        """The arguments of an aggregate as its accumulators take them."""

    def sum(self, aggregate: Aggregate) -> Callable[[], Accumulator]:
        """Makes the accumulators of sum, avg, total and other aggregates that only this dialect has."""

    def average(self, total: int, count: int) -> Value:
        """Of integers."""
