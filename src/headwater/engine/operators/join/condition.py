"""ON, taken apart: what an index can find, and the test that has the last word on a pair of rows.

An equation of two columns is indexed when it is true only of values that hash alike: neither side is converted before
the source compares them. It never trusts a hash: the whole condition is evaluated on every candidate pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.dialects.registry import DIALECTS
from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.rows.arrays import Bools, Int64s, Ints, latest, picked, product
from headwater.engine.rows.batch import Batch
from headwater.engine.state.bag import BagMatches
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.ir.expr import Call, Case, ColumnRef, Const, Expr
from headwater.sql.ir.walk import names_in

_EQUATIONS = ("=", "is", "float8 =", "float8 is")


@dataclass(frozen=True, slots=True)
class Equation:
    """`left = right`; `null_safe` is IS."""

    left: ColumnRef
    right: ColumnRef
    collation: str
    null_safe: bool


@dataclass(frozen=True, slots=True)
class Pairs:
    """Candidates: row `found.query[i]` of `asked` with row i of `found`, which is the right's unless `swapped`."""

    asked: Batch
    found: BagMatches
    swapped: bool = False

    def __len__(self) -> int:
        return len(self.found)

    @property
    def tx(self) -> Int64s:
        return latest(picked(self.asked.tx, self.found.query), self.found.tx)

    @property
    def diff(self) -> Int64s:
        return product(picked(self.asked.diff, self.found.query), self.found.weight)

    def columns(
        self, left: list[int] | None = None, right: list[int] | None = None, kept: Bools | None = None
    ) -> list[pa.Array]:
        """The left's columns at these places, then the right's; None is all."""
        query: Ints = self.found.query if kept is None else self.found.query[kept]
        mine, other = (right, left) if self.swapped else (left, right)
        asked = self.asked.rows if mine is None else self.asked.rows.select(mine)
        asked = _taken(asked, query).columns if asked.num_columns else []
        found = self.found.rows(kept, other).columns if other != [] else []
        return [*found, *asked] if self.swapped else [*asked, *found]


def _taken(rows: pa.RecordBatch, places: Ints) -> pa.RecordBatch:
    """Often every row found one partner, and all are taken as they lie."""
    if len(places) == rows.num_rows and (places == np.arange(len(places))).all():
        return rows
    return rows.take(pa.array(places))


@dataclass(frozen=True, slots=True)
class Tested:
    """Where the condition holds, where it is NULL, and where it fails."""

    true: Bools
    null: Bools
    failed: dict[int, str]


class Condition:
    """`on` None holds for every pair."""

    def __init__(self, left: Table, right: Table, on: Expr | None, *, null_aware: bool = False) -> None:
        self.equations = [] if on is None else [each for part in conjuncts(on) if (each := equation(part, left, right))]
        used = names_in(on)
        self._left = [n for n, name in enumerate(left.names) if name in used]
        self._right = [n for n, name in enumerate(right.names) if name in used]
        if not self._left and not self._right:
            self._left = [0]
        columns = [*(left.columns[n] for n in self._left), *(right.columns[n] for n in self._right)]
        self._table = Table("", tuple(columns), dialect=left.dialect)
        self._schema = self._table.arrow
        certain = on is None or (not null_aware and _certain(on, self.equations))
        self._test = None if on is None or certain else Expressions([_as_truth(on)], self._table)

    def test(self, pairs: Pairs) -> Tested:
        count = len(pairs)
        if self._test is None or not count:
            return Tested(np.ones(count, np.bool_), np.zeros(count, np.bool_), {})
        columns = pairs.columns(self._left, self._right)
        evaluated = self._test.evaluate(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        truth = evaluated.columns[0]
        null = np.asarray(truth.is_null())
        null[list(evaluated.failed)] = False
        return Tested(np.asarray(truth.fill_null(0)) == 1, null, evaluated.failed)


def conjuncts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call) and expr.name == "and":
        for arg in expr.args:
            yield from conjuncts(arg)
    else:
        yield expr


def equation(expr: Expr, left: Table, right: Table) -> Equation | None:
    """The conjunct as an equation of a column of the left with one of the right."""
    match expr:
        case Call(name, (ColumnRef() as one, ColumnRef() as other), _, collation) if name in _EQUATIONS:
            if one.name in right.names and other.name in left.names:
                one, other = other, one
            if one.name in left.names and other.name in right.names and _unchanged(one, other, left):
                return Equation(one, other, collation, name.endswith("is"))
    return None


def _unchanged(one: ColumnRef, other: ColumnRef, table: Table) -> bool:
    return DIALECTS[table.dialect].evaluator.compares_unchanged(one, other)


def _certain(on: Expr, equations: list[Equation]) -> bool:
    """One INTEGER with another: their hashes are equal only where they are, so there is nothing left to test."""
    if len(equations) != 1 or not (isinstance(on, Call) and on.name == "="):
        return False
    return equations[0].left.type is equations[0].right.type is Type.INTEGER


def _as_truth(on: Expr) -> Expr:
    """1, 0 or NULL of anything WHERE would ask."""
    one, zero = Const(1, Type.INTEGER), Const(0, Type.INTEGER)
    return Case(((on, one), (Call("not", (on,), Type.INTEGER), zero)), Const(None, None), Type.INTEGER)
