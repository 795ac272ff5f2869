"""GROUP BY where every aggregate is a running sum: count of anything; sum, total and avg of INTEGERs.

All groups of a step at once: their numbers are a tally, their ups and downs a timeline. A sum is kept in two halves, so
that no order of additions overflows; a total that is no INTEGER is an error, as in the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.dialects.registry import DIALECTS
from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.timeline import Timeline, timeline
from headwater.engine.rows.arrays import Bools, Int64s, Ints
from headwater.engine.rows.batch import Batch, identified, nothing, table_of
from headwater.engine.rows.hashes import key_hash
from headwater.engine.rows.work import Work
from headwater.engine.state.persistence import State
from headwater.engine.state.tally import Tally
from headwater.model.schema import Table
from headwater.model.value import Type, Value, to_array
from headwater.sql.evaluation import INTEGER_OVERFLOW, Evaluator
from headwater.sql.ir.expr import Case, Const, Expr, Output
from headwater.sql.ir.relation import Aggregate, Group, RelColumn, columns_of

_HALF = np.int64(32)
_LOW = np.int64((1 << 32) - 1)
_HIGH_MIN, _HIGH_MAX = -(1 << 31), (1 << 31) - 1
_TYPES = {
    "count": (Type.INTEGER,),
    "sum": (Type.INTEGER, Type.NUMERIC),
    "total": (Type.REAL,),
    "avg": (Type.REAL, Type.NUMERIC),
}
_WIDTH = 3  # of an aggregate: values, the sum's high half, its low half


def runs(group: Group, table: Table) -> bool:
    """Whether this operator can do it. A group without keys is there over nothing too: left to `group.py`."""
    evaluator = DIALECTS[table.dialect].evaluator
    keys = zip(group.keys, group.key_columns, strict=True)
    plain = all(_is_plain(key, column, evaluator) for key, column in keys)
    return bool(group.keys) and plain and all(map(_sums, group.aggregates))


def _is_plain(key: Output, column: RelColumn, evaluator: Evaluator) -> bool:
    """Equal keys look alike."""
    return evaluator.looks_alike(column) and key.expr.type is column.type


def _sums(aggregate: Aggregate) -> bool:
    if aggregate.distinct or aggregate.column.type not in _TYPES.get(aggregate.function, ()):
        return False
    return aggregate.function == "count" or aggregate.args[0].type is Type.INTEGER


@dataclass(frozen=True, slots=True)
class _Summand:
    """One aggregate; `value` and `filter` are places among the expressions, None where it has none."""

    function: str
    value: int | None
    filter: int | None
    numeric: bool
    evaluator: Evaluator

    def numbers(self, columns: Sequence[pa.Array], diff: Int64s) -> list[Int64s]:
        counts = np.ones(len(diff), np.bool_)
        if self.filter is not None:
            counts &= np.asarray(columns[self.filter]) == 1
        if self.value is not None:
            counts &= np.asarray(columns[self.value].is_valid())
        weight = np.where(counts, diff, 0)
        if self.function == "count" or self.value is None:
            return [weight, np.zeros_like(weight), np.zeros_like(weight)]
        value = np.asarray(columns[self.value].fill_null(0))
        return [weight, weight * (value >> _HALF), weight * (value & _LOW)]

    def result(self, numbers: Int64s) -> tuple[pa.Array, Bools]:
        """The column, and where it is an error."""
        count, total = numbers[:, 0], _Total.of(numbers[:, 1], numbers[:, 2])
        match self.function:
            case "count":
                return pa.array(count), np.zeros(len(count), np.bool_)
            case name if self.numeric:
                return self._numerics(count, total, name == "avg"), np.zeros(len(count), np.bool_)
            case "sum":
                return pa.array(total.integer, mask=(count == 0) | total.over), total.over
            case "total":
                return pa.array(total.real), np.zeros(len(count), np.bool_)
            case _:
                average = total.real / np.where(count == 0, 1, count)
                return pa.array(average, mask=count == 0), np.zeros(len(count), np.bool_)

    def _numerics(self, count: Int64s, total: _Total, average: bool) -> pa.Array:
        """Of any size; an average shows as many digits as the dialect gives it."""
        halves = zip(total.high.tolist(), total.low.tolist(), strict=True)
        sums = [(high << int(_HALF)) + low for high, low in halves]
        show = self.evaluator.average if average else _as_numeric
        pairs = zip(sums, count.tolist(), strict=True)
        return to_array([show(sum, number) if number else None for sum, number in pairs], Type.NUMERIC)


def _as_numeric(total: int, count: int) -> Value:
    return Decimal(total)


@dataclass(frozen=True, slots=True)
class _Total:
    high: Int64s
    low: Int64s
    integer: Int64s
    real: npt.NDArray[np.float64]
    over: Bools

    @classmethod
    def of(cls, high: Int64s, low: Int64s) -> _Total:
        high, low = high + (low >> _HALF), low & _LOW
        over = (high < _HIGH_MIN) | (high > _HIGH_MAX)
        integer = (high << _HALF) | low
        return cls(high, low, integer, np.where(over, high * 2.0**32 + low, integer.astype(np.float64)), over)


class RunningOperator:
    def __init__(self, group: Group, table: Table, work: Work, failures: Failures) -> None:
        self.table = table_of(columns_of(group))
        self._keys = group.key_columns
        self._failures = failures
        exprs: list[Expr] = [key.expr for key in group.keys]
        evaluator = DIALECTS[table.dialect].evaluator
        self._summands = [_summand(aggregate, exprs, evaluator) for aggregate in group.aggregates]
        self._expressions = Expressions(exprs, table)
        self._tally = Tally(1 + _WIDTH * len(self._summands), work)
        self._work = work

    def step(self, inputs: list[Batch]) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return nothing(self.table)
        evaluated = self._expressions.evaluate(batch.rows)
        columns = evaluated.columns
        if evaluated.failed:
            self._failures.note(evaluated.failed, batch.rows, batch.tx, batch.diff)
            kept = np.ones(len(batch), np.bool_)
            kept[list(evaluated.failed)] = False
            columns, batch = [column.filter(pa.array(kept)) for column in columns], batch.filter(kept)
        return self._advance(columns, batch) if len(batch) else nothing(self.table)

    def _advance(self, columns: list[pa.Array], batch: Batch) -> Batch:
        keys = columns[: len(self._keys)]
        hash = key_hash(keys, [c.type for c in self._keys], [c.collation for c in self._keys], len(batch))
        numbers = [batch.diff, *(each for one in self._summands for each in one.numbers(columns, batch.diff))]
        change = np.stack(numbers, axis=1)
        line = timeline(hash, batch.tx, change, self._tally.get(hash))
        self._tally.add(hash, change)
        self._work.gathered += len(line.key)
        known, place = np.unique(hash, return_index=True)
        return self._shown(line, keys, place[np.searchsorted(known, line.key)])

    def _shown(self, line: Timeline, keys: list[pa.Array], place: Ints) -> Batch:
        """Each group's row before and after; where nothing in it changed the two cancel."""
        count = len(line.key)
        numbers = np.concatenate((line.before, line.after))
        results = [
            one.result(numbers[:, 1 + _WIDTH * n : 1 + _WIDTH * (n + 1)]) for n, one in enumerate(self._summands)
        ]
        there = numbers[:, 0] != 0
        diff = np.where(there, np.repeat(np.array([-1, 1]), count), 0)
        tx = np.concatenate((line.tx, line.tx))
        shown = [key.take(pa.array(np.concatenate((place, place)))) for key in keys]
        rows = pa.RecordBatch.from_arrays([*shown, *(column for column, _ in results)], schema=self.table.arrow)
        self._note(results, rows, tx, diff)
        rows = rows.filter(pa.array(there))
        return identified(rows, self.table, tx[there], diff[there]).consolidated()

    def _note(self, results: list[tuple[pa.Array, Bools]], rows: pa.RecordBatch, tx: Int64s, diff: Int64s) -> None:
        if any(over.any() for _, over in results):
            over = np.logical_or.reduce([each for _, each in results]) & (diff != 0)
            self._failures.note({int(at): INTEGER_OVERFLOW for at in np.flatnonzero(over)}, rows, tx, diff)

    def state(self) -> list[State]:
        return [self._tally]

    def resume(self) -> None:
        """All state is in the tally."""


def _summand(aggregate: Aggregate, exprs: list[Expr], evaluator: Evaluator) -> _Summand:
    """Adds the aggregate's expressions to those evaluated."""
    value = filter = None
    if aggregate.args:
        value = len(exprs)
        exprs.append(aggregate.args[0])
    if aggregate.filter is not None:
        filter = len(exprs)
        exprs.append(Case(((aggregate.filter, Const(1, Type.INTEGER)),), Const(0, Type.INTEGER), Type.INTEGER))
    return _Summand(aggregate.function, value, filter, aggregate.column.type is Type.NUMERIC, evaluator)
