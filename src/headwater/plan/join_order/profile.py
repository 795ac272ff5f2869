"""Profile: the rows that a relation is estimated to have, and what is known of their columns.

The rules are those of the field: independence of conditions, containment of join values, fixed shares for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from headwater.model.value import Value
from headwater.plan.join_order.statistics import ColumnStatistics, Statistics, TableStatistics
from headwater.sql.ir.conjunction import parts
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr
from headwater.sql.ir.relation import (
    Demand,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    Mark,
    Project,
    Relation,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
)

_ROWS = 1000.0  # of a table of which nothing is known
_DISTINCT, _FAN_OUT = 200.0, 10.0  # different values of a column of which nothing is known, and rows of each
_RANGE, _BETWEEN, _EQUAL, _OTHER, _SEMI = 1 / 3, 1 / 9, 1 / 10, 1 / 4, 1 / 2


@dataclass(frozen=True, slots=True)
class Profile:
    rows: float
    columns: Mapping[str, ColumnStatistics]

    def column(self, name: str) -> ColumnStatistics:
        known = self.columns.get(name)
        return ColumnStatistics(_assumed_distinct(self.rows)) if known is None else known

    def filtered(self, share: float) -> Profile:
        """So many of the rows, whichever."""
        return Profile(self.rows * share, self.columns)


def _assumed_distinct(rows: float) -> float:
    """As PostgreSQL has it: 200, or as many as there are rows where these are fewer. Of very many rows a tenth: columns
    by which large tables are joined mostly refer to others."""
    return max(min(rows, _DISTINCT), rows / _FAN_OUT, 1.0)


Profiler = Callable[[Relation], Profile]


def profiler(statistics: Statistics) -> Profiler:
    return lambda relation: profile_of(relation, statistics)


def profile_of(relation: Relation, statistics: Statistics) -> Profile:
    match relation:
        case Scan():
            return scanned(relation, statistics.get(relation.table))
        case Values(rows=rows):
            return Profile(float(len(rows)), {})
        case Filter(input=input, predicate=predicate):
            return where(profile_of(input, statistics), predicate)
        case Demand():
            return _demanded(relation, profile_of(relation.input, statistics))
        case Project():
            return _projected(relation, profile_of(relation.input, statistics))
        case Group():
            return _grouped(relation, profile_of(relation.input, statistics))
        case Distinct(input=input) | Mark(left=input):
            return profile_of(input, statistics)
        case Top():
            return _limited(relation, profile_of(relation.input, statistics))
        case Exists(left=left):
            return profile_of(left, statistics).filtered(_SEMI)
        case SetOperation():
            return _set(relation, statistics)
        case Join():
            return _joined(relation, statistics)


def scanned(scan: Scan, table: TableStatistics | None) -> Profile:
    rows = _ROWS if table is None else table.rows
    known = {} if table is None else table.columns
    columns = {column.name: known[name] for name, column in zip(scan.names, scan.columns, strict=True) if name in known}
    if len(scan.key) == 1:
        columns[scan.key[0]] = ColumnStatistics(max(rows, 1.0))
    return Profile(rows, columns)


def _demanded(demand: Demand, below: Profile) -> Profile:
    """What one subscriber asks for, of whom nothing is known: one value of each column."""
    share = math.prod(1.0 / max(below.column(name).distinct, 1.0) for name in demand.columns)
    one = {name: ColumnStatistics(1.0) for name in demand.columns}
    return Profile(below.rows * share, {**below.columns, **one})


def _projected(project: Project, below: Profile) -> Profile:
    plain = {one.name: one.expr.name for one in project.outputs if isinstance(one.expr, ColumnRef)}
    return Profile(below.rows, {new: below.column(old) for new, old in plain.items()})


def _limited(top: Top, below: Profile) -> Profile:
    if top.limit is None or top.partition or top.limit >= below.rows:
        return below
    return below.filtered(top.limit / below.rows)


def _set(relation: SetOperation, statistics: Statistics) -> Profile:
    left, right = profile_of(relation.left, statistics), profile_of(relation.right, statistics)
    if relation.kind == "union":
        return Profile(left.rows + right.rows, {})
    return Profile(left.rows * _SEMI, {})


def _joined(join: Join, statistics: Statistics) -> Profile:
    left, right = profile_of(join.left, statistics), profile_of(join.right, statistics)
    both = where(Profile(left.rows * right.rows, {**left.columns, **right.columns}), join.on)
    least = {"inner": 0.0, "left": left.rows, "right": right.rows, "full": max(left.rows, right.rows)}[join.kind]
    return replace(both, rows=max(both.rows, least))


def _grouped(group: Group, below: Profile) -> Profile:
    keys = [one.expr for one in group.keys]
    distinct = [below.column(each.name).distinct if isinstance(each, ColumnRef) else below.rows for each in keys]
    rows = max(min(math.prod(distinct), below.rows), 1.0)
    names = [column.name for column in columns_of(group)][: len(keys)]
    return Profile(rows, {name: ColumnStatistics(min(each, rows)) for name, each in zip(names, distinct, strict=True)})


def where(profile: Profile, predicate: Expr | None) -> Profile:
    for conjunct in () if predicate is None else parts("and", predicate):
        kept = profile.filtered(selectivity(conjunct, profile))
        match conjunct:
            case Call("=", (ColumnRef(name=name), Const(value=value))):
                kept = replace(kept, columns={**kept.columns, name: ColumnStatistics(1.0, 0.0, {value: 1.0})})
        profile = kept
    return profile


def selectivity(expr: Expr, profile: Profile) -> float:
    """The share of rows for which it holds."""
    match expr:
        case Call("and", args):
            return math.prod(selectivity(each, profile) for each in args)
        case Call("or", args):
            return 1.0 - math.prod(1.0 - selectivity(each, profile) for each in args)
        case Call("not", (arg,)):
            return 1.0 - selectivity(arg, profile)
        case Call("is", (ColumnRef(name=name), Const(value=None))):
            return profile.column(name).nulls
        case Call("isnot", (ColumnRef(name=name), Const(value=None))):
            return 1.0 - profile.column(name).nulls
        case Call("=", (ColumnRef(name=name), Const(value=value))):
            return profile.column(name).share(value)
        case Call("in", (ColumnRef(name=name), *items)):
            shares = (profile.column(name).share(each.value) for each in items if isinstance(each, Const))
            return min(sum(shares), 1.0)
        case Call("=" | "float8 =" | "is", (ColumnRef(name=one), ColumnRef(name=other))):
            return matched([profile.column(one), profile.column(other)])
        case Call(name=name):
            return {"=": _EQUAL, "between": _BETWEEN}.get(name, _RANGE if name[-1:] in "<>=" else _OTHER)
        case _:
            return _OTHER


def matched(columns: list[ColumnStatistics]) -> float:
    """Of all combinations of a row of each, the share in which these columns are equal."""
    common = {value for column in columns for value in column.common}
    unknown = [_share_of_unknown(column, common) for column in columns]
    pairs = list(zip(columns, unknown, strict=True))
    found = sum(math.prod(column.common.get(value, rest) for column, rest in pairs) for value in common)
    others = max(min(column.distinct for column in columns) - len(common), 0.0)
    return found + others * math.prod(column.rest for column in columns)


def _share_of_unknown(column: ColumnStatistics, common: Set[Value]) -> float:
    """Of a value that is common in another column and not in this one, which may not have it at all: of so many values
    it has no more than it has different ones."""
    strange = len(common) - len(column.common)
    has = column.distinct - len(column.common)
    return column.rest * min(max(has, 0.0) / strange, 1.0) if strange else column.rest
