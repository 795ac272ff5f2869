"""Columns nobody needs are left out, down to the tables; what tells rows of the result apart is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from headwater.sql.ir.free_columns import expressions_of
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
from headwater.sql.ir.walk import names_in

Needed = frozenset[str]


def pruned(relation: Relation, needed: Needed) -> Relation:
    return _pruned(relation, needed | frozenset(keys_of(relation)))


def keys_of(relation: Relation) -> Iterator[str]:
    """The keys of the tables whose rows make up a row of the relation."""
    match relation:
        case Scan():
            yield from relation.key
        case Filter() | Project() | Top() | Demand():
            yield from keys_of(relation.input)
        case Join():
            yield from (*keys_of(relation.left), *keys_of(relation.right))
        case Exists() | Mark():
            yield from keys_of(relation.left)
        case Group() | Distinct() | SetOperation() | Values():
            return
        case _:
            assert_never(relation)


def _pruned(relation: Relation, needed: Needed) -> Relation:
    below = needed | names_in(*expressions_of(relation))
    match relation:
        case Scan():
            return _narrowed(relation, needed)
        case Values():
            return relation
        case Demand():
            return replace(relation, input=_pruned(relation.input, needed | frozenset(relation.columns)))
        case Filter() | Top():
            return replace(relation, input=_pruned(relation.input, below))
        case Project():
            return _projected(relation, needed)
        case Join():
            return replace(relation, left=_pruned(relation.left, below), right=_pruned(relation.right, below))
        case Exists() | Mark():
            right = _pruned(relation.right, names_in(*expressions_of(relation)))
            return replace(relation, left=_pruned(relation.left, below), right=right)
        case Group():
            return replace(relation, input=_pruned(relation.input, names_in(*expressions_of(relation))))
        case Distinct():
            return replace(relation, input=_pruned(relation.input, _every(relation.input)))
        case SetOperation():
            left, right = relation.left, relation.right
            return replace(relation, left=_pruned(left, _every(left)), right=_pruned(right, _every(right)))
        case _:
            assert_never(relation)


def _every(relation: Relation) -> Needed:
    return frozenset(column.name for column in columns_of(relation))


def _narrowed(scan: Scan, needed: Needed) -> Scan:
    """One column at least: rows are counted by it."""
    pairs = list(zip(scan.names, scan.columns, strict=True))
    kept = [pair for pair in pairs if pair[1].name in needed]
    kept = kept or [pair for pair in pairs if pair[1].name in scan.key] or pairs[:1]
    key = scan.key if set(scan.key) <= {column.name for _, column in kept} else ()
    return Scan(scan.table, tuple(name for name, _ in kept), tuple(column for _, column in kept), key)


def _projected(project: Project, needed: Needed) -> Relation:
    pairs = list(zip(project.outputs, project.columns, strict=True))
    kept = [pair for pair in pairs if pair[0].name in needed] or pairs[:1]
    outputs, columns = tuple(output for output, _ in kept), tuple(column for _, column in kept)
    below = names_in(*(output.expr for output in outputs))
    return Project(_pruned(project.input, below), outputs, columns)
