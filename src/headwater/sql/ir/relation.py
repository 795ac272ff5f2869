"""Relations: what stands in FROM, bound and typed. A tree of values; nothing here parses, plans or evaluates.

Every relation has columns with names that are unique in the whole tree (`o.id`, `agg1.n`, `sub2.mark`, …). Expressions
in a node refer to the columns of its inputs by these names, through `ColumnRef`. A bag of rows unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headwater.model.value import Type, Value
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.sql_type import SqlType

JoinKind = Literal["inner", "left", "right", "full"]
SetKind = Literal["union", "intersect", "except"]


@dataclass(frozen=True, slots=True)
class RelColumn:
    """`sql_type` and `collation` are what a reference to the column brings into a comparison."""

    name: str
    type: Type
    sql_type: SqlType | None = None
    collation: str = "BINARY"
    declared: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """A base table under a name of its own; `columns[i]` is the table's column `names[i]`.

    `key` are the columns of the primary key, by their names here; empty where the table has none.
    """

    table: str
    names: tuple[str, ...]
    columns: tuple[RelColumn, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Values:
    columns: tuple[RelColumn, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    input: Relation
    predicate: Expr


@dataclass(frozen=True, slots=True)
class Project:
    """`outputs[i].name` is `columns[i].name`."""

    input: Relation
    outputs: tuple[Output, ...]
    columns: tuple[RelColumn, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """`on` None joins everything with everything. Columns: the left's, then the right's."""

    kind: JoinKind
    left: Relation
    right: Relation
    on: Expr | None


@dataclass(frozen=True, slots=True)
class Exists:
    """Semi and anti join: the rows of `left` with (`anti`: without) a row of `right` for which `on` holds.

    `null_aware` is NOT IN: a row of `left` for which `on` is NULL with some row of `right`, and holds with none, is
    not in the result either. Columns: the left's.
    """

    left: Relation
    right: Relation
    on: Expr | None
    anti: bool = False
    null_aware: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """The rows of `left` with one column more: 1 where `on` holds with some row of `right`; else NULL where
    `null_aware` and `on` is NULL with some; else 0. For EXISTS and IN anywhere, also under OR."""

    left: Relation
    right: Relation
    on: Expr | None
    column: RelColumn
    null_aware: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of `outputs`. `function` is lower-case: count, sum, total, avg, min, max, group_concat and
    others of a dialect's; `args` empty for count(*). `filter` is its FILTER clause. `order` is the effective order in
    which values are joined or collected: total."""

    column: RelColumn
    function: str
    args: tuple[Expr, ...]
    distinct: bool = False
    filter: Expr | None = None
    collation: str = "BINARY"
    order: tuple[OrderKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """GROUP BY. `keys[i].name` is `columns[i].name`; aggregates follow. No keys: one row, also over nothing."""

    input: Relation
    keys: tuple[Output, ...]
    key_columns: tuple[RelColumn, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    input: Relation


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Columns by place: `columns` name them anew. Without `all` the result is a set."""

    kind: SetKind
    all: bool
    left: Relation
    right: Relation
    columns: tuple[RelColumn, ...]


@dataclass(frozen=True, slots=True)
class Top:
    """ORDER BY … LIMIT … OFFSET inside FROM, a set operation's side or a subquery. `order` is total.

    `partition`: the limit counts anew for each value of these expressions (what a correlated LIMIT becomes).
    """

    input: Relation
    order: tuple[OrderKey, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """The rows of `input` that some subscriber asks for: `columns` have, by these collations, the values that it gives
    to these holes of its template, counted from 0; where a hole takes a list, one of its values. A planned relation has
    it, a bound one not."""

    input: Relation
    columns: tuple[str, ...]
    collations: tuple[str, ...]
    holes: tuple[int, ...]


Relation = Scan | Values | Filter | Project | Join | Exists | Mark | Group | Distinct | SetOperation | Top | Demand


def columns_of(relation: Relation) -> tuple[RelColumn, ...]:
    match relation:
        case Scan() | Values() | Project() | SetOperation():
            return relation.columns
        case Filter() | Distinct() | Top() | Demand():
            return columns_of(relation.input)
        case Join():
            return (*columns_of(relation.left), *columns_of(relation.right))
        case Exists():
            return columns_of(relation.left)
        case Mark():
            return (*columns_of(relation.left), relation.column)
        case Group():
            return (*relation.key_columns, *(aggregate.column for aggregate in relation.aggregates))


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    match relation:
        case Scan() | Values():
            return ()
        case Filter() | Project() | Group() | Distinct() | Top() | Demand():
            return (relation.input,)
        case Join() | Exists() | Mark() | SetOperation():
            return (relation.left, relation.right)


def walked(relation: Relation) -> Iterator[Relation]:
    """Every operator, each before its inputs."""
    yield relation
    for each in inputs_of(relation):
        yield from walked(each)


def with_inputs(relation: Relation, inputs: Sequence[Relation]) -> Relation:
    """The same operator over other inputs."""
    match relation:
        case Scan() | Values():
            return relation
        case Filter() | Project() | Group() | Distinct() | Top() | Demand():
            return replace(relation, input=inputs[0])
        case Join() | Exists() | Mark() | SetOperation():
            return replace(relation, left=inputs[0], right=inputs[1])


def tables_of(relation: Relation) -> frozenset[str]:
    """The base tables it reads."""
    if isinstance(relation, Scan):
        return frozenset({relation.table})
    return frozenset().union(*(tables_of(input) for input in inputs_of(relation)))
