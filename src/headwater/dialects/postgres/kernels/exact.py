"""Expressions evaluated as PostgreSQL evaluates them, a row at a time, in Python: exact by the rules written down here.

Each expression becomes a function of the row, made once. AND, OR, CASE and COALESCE look no further than they must, so
that an error they guard against is none. It keeps no row between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

import pyarrow as pa

from headwater.dialects.postgres.kernels.arrays import MEMBERSHIP
from headwater.dialects.postgres.kernels.arrays import STRICT as STRICT_ARRAYS
from headwater.dialects.postgres.kernels.date_parts import PARTS
from headwater.dialects.postgres.kernels.functions import (
    BOUNDS,
    STRICT,
    cast,
    comparison,
    integer_operator,
    order_of,
    real_operator,
)
from headwater.dialects.postgres.kernels.json import JSON
from headwater.dialects.postgres.kernels.numeric import STRICT as STRICT_NUMERIC
from headwater.dialects.postgres.kernels.numeric import (
    modified,
    numeric_cast,
    numeric_comparison,
    numeric_operator,
)
from headwater.dialects.postgres.kernels.numeric import order_of as numeric_order_of
from headwater.dialects.postgres.kernels.runtime_values import held, held_column, shown
from headwater.dialects.postgres.kernels.temporal import SUMS
from headwater.dialects.postgres.kernels.texts import joined
from headwater.dialects.postgres.kernels.to_char import to_char
from headwater.dialects.postgres.types.kinds import kind_of
from headwater.model.budget import weighed
from headwater.model.schema import Table
from headwater.model.value import Row, Type
from headwater.sql.evaluation import EvaluationError, Selected
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr
from headwater.sql.ir.walk import references

Run = Callable[[Row], Any]
_STRICT: dict[str, Callable[..., Any]] = {**STRICT, **SUMS, **PARTS, **JSON, **STRICT_ARRAYS, "text to_char": to_char}
_MEASURE = attrgetter("measure_us")


class PostgresKernel:
    """Evaluates `exprs` side by side. A row that makes PostgreSQL raise fails alone."""

    def __init__(self, exprs: Sequence[Expr], table: Table) -> None:
        names = list({ref.name: None for expr in exprs for ref in references(expr)})
        self._places = [table.index(name) for name in names]
        self._types = [table.columns[place].type for place in self._places]
        places = {name: place for place, name in enumerate(names)}
        self._runs = [_edge(compiled(expr, places), expr.type) for expr in exprs]

    def select(self, batch: pa.RecordBatch) -> Selected:
        pairs = zip(self._places, self._types, strict=True)
        columns = [held_column(batch.column(place), type) for place, type in pairs]
        given = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        failed: dict[int, str] = {}

        def one(place: int, row: Row) -> Row:
            try:
                return tuple([run(row) for run in self._runs])
            except EvaluationError as error:
                failed[place] = str(error)
                return ()

        return Selected(weighed(map(one, count(), given)), failed)


def _edge(run: Run, type: Type | None) -> Run:
    show = shown(type)
    return run if show is None else lambda row: None if (value := run(row)) is None else show(value)


def compiled(expr: Expr, places: dict[str, int]) -> Run:
    match expr:
        case ColumnRef(name=name):
            place = places[name]
            return lambda row: row[place]
        case Const(value=value, type=type):
            constant = held(value, type)
            return lambda row: constant
        case Cast(arg=arg):
            return _cast(expr, compiled(arg, places))
        case Case():
            return _case(expr, places)
        case Call(name=name, args=args):
            runs = [compiled(arg, places) for arg in args]
            numeric = "numeric" in map(_own, args)
            special = (_NUMERIC_SPECIAL if numeric else _SPECIAL).get(name)
            return special(runs) if special is not None else _strict(_function(name, numeric), runs)


def _own(arg: Expr) -> str:
    return kind_of(arg).base


def _cast(expr: Cast, run: Run) -> Run:
    """A constant is read once."""
    own, wanted = _own(expr.arg), _own(expr)
    function = numeric_cast(own, wanted) if "numeric" in (own, wanted) else cast(own, wanted)
    if not isinstance(expr.arg, Const) or expr.arg.value is None:
        return _strict(function, [run])
    value = function(held(expr.arg.value, expr.arg.type))
    return lambda row: value


def _function(name: str, numeric: bool) -> Callable[..., Any]:
    kind, _, sign = name.partition(" ")
    if name in _STRICT:
        return _STRICT[name]
    if kind in BOUNDS:
        return integer_operator(kind, sign)
    if kind == "interval":
        return _measured(comparison(sign))
    if kind == "numeric":
        return numeric_operator(sign)
    if kind.startswith("numeric("):
        return modified(name)
    if numeric:
        return STRICT_NUMERIC.get(name) or numeric_comparison(name)
    return real_operator(sign) if kind == "float8" else comparison(name)


def _measured(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Intervals are compared by their measure: a month is thirty days."""
    return lambda one, other: compare(one.measure_us, other.measure_us)


def _strict(function: Callable[..., Any], runs: list[Run]) -> Run:
    """NULL of any NULL; but all arguments are computed first, and one that fails does so beside a NULL too."""
    if len(runs) == 1:
        only = runs[0]
        return lambda row: None if (value := only(row)) is None else function(value)

    if len(runs) == 2:
        return _strict_pair(function, *runs)

    def run(row: Row) -> Any:
        values = [each(row) for each in runs]
        return None if any(value is None for value in values) else function(*values)

    return run


def _strict_pair(function: Callable[..., Any], first: Run, second: Run) -> Run:
    """By identity: to find out that a Decimal does not equal None takes Python longer than to multiply it."""

    def run(row: Row) -> Any:
        one, other = first(row), second(row)
        return None if one is None or other is None else function(one, other)

    return run


def _case(expr: Case, places: dict[str, int]) -> Run:
    whens = [(compiled(when, places), compiled(then, places)) for when, then in expr.whens]
    default = compiled(expr.default, places)

    def run(row: Row) -> Any:
        for when, then in whens:
            if when(row):
                return then(row)
        return default(row)

    return run


def _and(runs: list[Run]) -> Run:
    one, other = runs

    def run(row: Row) -> Any:
        a = one(row)
        if a is not None and not a:
            return False
        b = other(row)
        return b if a else (False if b is not None and not b else None)

    return run


def _or(runs: list[Run]) -> Run:
    one, other = runs

    def run(row: Row) -> Any:
        a = one(row)
        if a:
            return True
        b = other(row)
        return True if b else (b if a is not None else None)

    return run


def _same(equal: bool, key: Callable[[Any], Any] = lambda value: value) -> Callable[[list[Run]], Run]:
    """IS [NOT] DISTINCT FROM: NULL is a value like others."""

    def build(runs: list[Run]) -> Run:
        one, other = runs

        def run(row: Row) -> bool:
            a, b = one(row), other(row)
            same = a is b if a is None or b is None else key(a) == key(b)
            return same is equal

        return run

    return build


def _in(runs: list[Run]) -> Run:
    needle, *items = runs

    def run(row: Row) -> Any:
        value = needle(row)
        if value is None:
            return None
        found = [item(row) for item in items]
        return True if value in found else (None if None in found else False)

    return run


def _numeric_in(runs: list[Run]) -> Run:
    return _in([_ordered(run) for run in runs])


def _ordered(run: Run) -> Run:
    return lambda row: None if (value := run(row)) is None else numeric_order_of(value)


def _any(function: Callable[[Any, Any], bool | None]) -> Callable[[list[Run]], Run]:
    def build(runs: list[Run]) -> Run:
        needle, array = runs
        return lambda row: function(needle(row), array(row))

    return build


def _coalesce(runs: list[Run]) -> Run:
    def run(row: Row) -> Any:
        return next((value for each in runs if (value := each(row)) is not None), None)

    return run


def _extreme(pick: Callable[..., Any], key: Callable[[Any], Any] | None = None) -> Callable[[list[Run]], Run]:
    def build(runs: list[Run]) -> Run:
        return lambda row: pick((value for each in runs if (value := each(row)) is not None), default=None, key=key)

    return build


def _concat(runs: list[Run]) -> Run:
    return lambda row: joined(value for each in runs if (value := each(row)) is not None)


def _concat_ws(runs: list[Run]) -> Run:
    by, *others = runs

    def run(row: Row) -> Any:
        sep, values = by(row), [each(row) for each in others]
        return None if sep is None else joined((value for value in values if value is not None), sep)

    return run


_SPECIAL: dict[str, Callable[[list[Run]], Run]] = {
    "and": _and,
    "or": _or,
    "not": lambda runs: _strict(lambda value: not value, runs),
    "is": _same(True),
    "isnot": _same(False),
    "float8 is": _same(True, order_of),
    "float8 isnot": _same(False, order_of),
    "interval is": _same(True, _MEASURE),
    "interval isnot": _same(False, _MEASURE),
    "in": _in,
    **{name: _any(function) for name, function in MEMBERSHIP.items()},
    "coalesce": _coalesce,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "concat": _concat,
    "concat_ws": _concat_ws,
}
_NUMERIC_SPECIAL: dict[str, Callable[[list[Run]], Run]] = {
    **_SPECIAL,
    "is": _same(True, numeric_order_of),
    "isnot": _same(False, numeric_order_of),
    "in": _numeric_in,
    "greatest": _extreme(max, numeric_order_of),
    "least": _extreme(min, numeric_order_of),
}
