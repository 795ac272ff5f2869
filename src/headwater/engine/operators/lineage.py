"""Lineage: the names under which an operator's rows hold the values of the relation's columns.

A row that fails inside the tree can only change rows of the relation that have its values. Names are unique in the
whole tree, so a name identifies a column and the operator that it comes from. A computed column, and one above a limit,
has no lineage: a row that fails beneath may change any value there. It never looks at data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from headwater.engine.operators.join.condition import conjuncts, equation
from headwater.engine.rows.batch import table_of
from headwater.sql.ir.expr import ColumnRef, Expr, Output
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
    RelColumn,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
    inputs_of,
)


@dataclass(frozen=True, slots=True)
class Traced:
    """A column of the relation, and the names its values go by here; none where they are not known."""

    column: RelColumn
    names: frozenset[str]


Lineage = tuple[Traced, ...]  # one for each column of the relation


def lineage_of(relation: Relation) -> Lineage:
    return tuple(Traced(column, frozenset({column.name})) for column in columns_of(relation))


def joined_lineages(relation: Relation) -> dict[tuple[str, ...], Lineage]:
    """The lineage at every input of a join in the relation, by the names of its columns."""
    found: dict[tuple[str, ...], Lineage] = {}
    _collect(relation, lineage_of(relation), found)
    return found


def _collect(relation: Relation, lineage: Lineage, found: dict[tuple[str, ...], Lineage]) -> None:
    for each, below in zip(inputs_of(relation), beneath(relation, lineage), strict=True):
        if isinstance(relation, Join):
            found[names_of(each)] = below
        _collect(each, below, found)


def names_of(relation: Relation) -> tuple[str, ...]:
    return tuple(column.name for column in columns_of(relation))


def beneath(relation: Relation, lineage: Lineage) -> tuple[Lineage, ...]:
    """The lineage at each of its inputs."""
    match relation:
        case Scan() | Values():
            return ()
        case Filter() | Demand():
            return (lineage,)
        case Project(outputs=outputs):
            return (_renamed(lineage, _plain(outputs)),)
        case Group(keys=keys, key_columns=columns):
            return (_renamed(lineage, _plain(keys), columns),)
        case Distinct(input=input):
            return (_renamed(lineage, {column.name: column.name for column in columns_of(input)}, columns_of(input)),)
        case SetOperation(left=left, right=right, columns=columns):
            return tuple(_renamed(lineage, _placed(columns, side), columns) for side in (left, right))
        case Top(partition=partition):
            counted = {expr.name: expr.name for expr in partition if isinstance(expr, ColumnRef)}
            return (_renamed(lineage, counted),)
        case Join(left=left, right=right, on=on):
            return _among(lineage, left, right, on), _among(lineage, right, left, on)
        case Exists(left=left, right=right) | Mark(left=left, right=right):
            on = None if relation.null_aware else relation.on  # a NULL in NOT IN is everybody's
            return _among(lineage, left, right, None), _among(lineage, right, left, on)


def noted(relation: Relation, lineage: Lineage) -> Lineage:
    """The lineage of the rows that its operator tells failures of: of an input, or its own."""
    inputs = beneath(relation, lineage)
    if isinstance(relation, Join):
        return lineage
    if isinstance(relation, Group):
        keys = {column.name for column in relation.key_columns}
        own = _each(lineage, lambda traced: traced.names & keys)
        return tuple(replace(a, names=a.names | b.names) for a, b in zip(own, inputs[0], strict=True))
    return inputs[0] if inputs else lineage


def _each(lineage: Lineage, names: Callable[[Traced], Iterator[str] | frozenset[str]]) -> Lineage:
    return tuple(replace(traced, names=frozenset(names(traced))) for traced in lineage)


def _renamed(lineage: Lineage, names: Mapping[str, str], merging: tuple[RelColumn, ...] = ()) -> Lineage:
    """`merging` are columns by which rows are put together: by a finer or the same collation as they are asked for."""
    merged = {column.name: column.collation for column in merging}
    return _each(
        lineage,
        lambda traced: (
            names[name]
            for name in traced.names
            if name in names and merged.get(name, "BINARY") in ("BINARY", traced.column.collation)
        ),
    )


def _plain(outputs: tuple[Output, ...]) -> dict[str, str]:
    return {output.name: output.expr.name for output in outputs if isinstance(output.expr, ColumnRef)}


def _placed(columns: tuple[RelColumn, ...], side: Relation) -> dict[str, str]:
    return {column.name: other.name for column, other in zip(columns, columns_of(side), strict=True)}


def _among(lineage: Lineage, side: Relation, other: Relation, on: Expr | None) -> Lineage:
    """A side's own columns, and those that must equal the other's."""
    mine = {column.name: column.name for column in columns_of(side)}
    one, two = table_of(columns_of(other)), table_of(columns_of(side))
    equations = [each for part in (conjuncts(on) if on is not None else ()) if (each := equation(part, one, two))]

    def names(traced: Traced) -> Iterator[str]:
        yield from (name for name in traced.names if name in mine)
        for each in equations:
            if each.left.name in traced.names and each.collation in ("BINARY", traced.column.collation):
                yield each.right.name

    return _each(lineage, names)
