"""Whether a relation speaks of its own columns alone; if not, it cannot stand by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from headwater.sql.ir.expr import Expr
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
    inputs_of,
)
from headwater.sql.ir.walk import names_in


def expressions_of(relation: Relation) -> Iterator[Expr]:
    """Every expression of the node itself, over the columns of its inputs."""
    match relation:
        case Scan() | Values() | Distinct() | SetOperation() | Demand():
            return
        case Filter():
            yield relation.predicate
        case Project():
            yield from (output.expr for output in relation.outputs)
        case Join() | Exists() | Mark():
            if relation.on is not None:
                yield relation.on
        case Group():
            yield from (key.expr for key in relation.keys)
            for aggregate in relation.aggregates:
                yield from aggregate.args
                yield from (key.expr for key in aggregate.order)
                if aggregate.filter is not None:
                    yield aggregate.filter
        case Top():
            yield from (key.expr for key in relation.order)
            yield from relation.partition
        case _:
            assert_never(relation)


def is_closed(relation: Relation) -> bool:
    seen = {column.name for each in inputs_of(relation) for column in columns_of(each)}
    if not names_in(*expressions_of(relation)) <= seen:
        return False
    return all(is_closed(each) for each in inputs_of(relation))
