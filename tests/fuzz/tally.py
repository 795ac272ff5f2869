"""What a query is made of, by name: so that a run can tell what it has covered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Table
from headwater.plan.planner import Planned, plan
from headwater.sql.ir.relation import (
    Aggregate,
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
    inputs_of,
)

OPERATORS = frozenset(
    {
        *("scan", "values", "filter", "project", "distinct", "mark join", "null-aware mark join"),
        *("inner join", "left join", "right join", "full join", "cross join", "self join"),
        *("semi join", "anti join", "null-aware anti join"),
        *("group", "group without keys", "top", "top by key"),
        *("union", "union all", "intersect", "except"),
        *("count", "sum", "avg", "min", "max", "total", "group_concat", "distinct aggregate", "filtered aggregate"),
        *("one table", "order", "limit", "parameters", "list", "bound"),
    }
)


def planned_now(sql: str, tables: Mapping[str, Table]) -> Planned | None:
    """None for what we refuse to follow."""
    try:
        return plan(sql, dict(tables))
    except UnsupportedQuery:
        return None


def operators(planned: Planned) -> set[str]:
    """Every kind of operator it uses, once."""
    template = planned.template
    found = set(_nodes(template.relation)) if template.relation is not None else {"one table"}
    found |= {"order"} if template.ordered else set()
    found |= {"limit"} if template.framed else set()
    found |= {"list" if each.op == "in" else "bound" for each in template.selectors}
    return found | ({"parameters"} if template.keys else set())


def _nodes(relation: Relation) -> Iterator[str]:
    yield from _names(relation)
    for each in inputs_of(relation):
        yield from _nodes(each)


def _names(relation: Relation) -> Iterator[str]:
    match relation:
        case Join():
            yield "cross join" if relation.on is None else f"{relation.kind} join"
            if {*_tables(relation.left)} & {*_tables(relation.right)}:
                yield "self join"
        case Exists(anti=anti, null_aware=aware):
            yield f"{'null-aware ' if aware else ''}{'anti' if anti else 'semi'} join"
        case Mark(null_aware=aware):
            yield f"{'null-aware ' if aware else ''}mark join"
        case Group(keys=keys, aggregates=aggregates):
            yield "group" if keys else "group without keys"
            for each in aggregates:
                yield from _aggregate(each)
        case SetOperation(kind=kind, all=every):
            yield f"{kind}{' all' if every else ''}"
        case Top(partition=partition):
            yield "top by key" if partition else "top"
        case Scan() | Values() | Filter() | Project() | Distinct():
            yield type(relation).__name__.lower()


def _aggregate(aggregate: Aggregate) -> Iterator[str]:
    yield aggregate.function
    if aggregate.distinct:
        yield "distinct aggregate"
    if aggregate.filter is not None:
        yield "filtered aggregate"


def _tables(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Scan):
        yield relation.table
    for each in inputs_of(relation):
        yield from _tables(each)
