"""A relation as indented text, one operator a line, its inputs beneath. Stable: relations are named by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from headwater.dialects.sqlite.literals import write
from headwater.dialects.sqlite.render import render, render_output
from headwater.sql.ir.expr import Expr, OrderKey
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


def tree(relation: Relation, depth: int = 0) -> Iterator[str]:
    yield f"{'   ' * (depth - 1)}└─ {line(relation)}" if depth else line(relation)
    for each in inputs_of(relation):
        yield from tree(each, depth + 1)


def line(relation: Relation) -> str:
    match relation:
        case Scan():
            key = f" key {', '.join(relation.key)}" if relation.key else " no key"
            return f"scan {relation.table} ({_names(column.name for column in relation.columns)}){key}"
        case Values():
            rows = ", ".join(f"({_names(write(value) for value in row)})" for row in relation.rows)
            return f"values ({_names(column.name for column in relation.columns)}) {rows}"
        case Filter():
            return f"filter {render(relation.predicate)}"
        case Project():
            return f"project {_names(render_output(output) for output in relation.outputs)}"
        case Join():
            return f"join {relation.kind}{_on(relation.on)}"
        case Exists():
            return f"{'anti' if relation.anti else 'semi'} join{_aware(relation.null_aware)}{_on(relation.on)}"
        case Mark():
            return f"mark {relation.column.name}{_aware(relation.null_aware)}{_on(relation.on)}"
        case Group():
            keys = _names(render_output(key) for key in relation.keys)
            aggregates = _names(_aggregate(aggregate) for aggregate in relation.aggregates)
            return f"group{f' by {keys}' if keys else ''}{f': {aggregates}' if aggregates else ''}"
        case Distinct():
            return "distinct"
        case SetOperation():
            columns = _names(column.name for column in relation.columns)
            return f"{relation.kind}{' all' if relation.all else ''} ({columns})"
        case Top():
            partition = f" per {_names(render(expr) for expr in relation.partition)}" if relation.partition else ""
            limit = "all" if relation.limit is None else relation.limit
            order = _names(key_text(key) for key in relation.order)
            return f"top {limit} offset {relation.offset}{partition} order {order}"
        case _:
            assert_never(relation)


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _on(on: Expr | None) -> str:
    return "" if on is None else f" on {render(on)}"


def _aware(null_aware: bool) -> str:
    return " null-aware" if null_aware else ""


def key_text(key: OrderKey) -> str:
    nulls = "" if key.nulls_first != key.descending else " nulls first" if key.nulls_first else " nulls last"
    collation = "" if key.collation == "BINARY" else f" collate {key.collation}"
    return f"{render(key.expr)}{collation}{' desc' if key.descending else ''}{nulls}"


def _aggregate(aggregate: Aggregate) -> str:
    args = _names(render(arg) for arg in aggregate.args) or "*"
    distinct = "distinct " if aggregate.distinct else ""
    collation = "" if aggregate.collation == "BINARY" else f" collate {aggregate.collation}"
    order = f" order {_names(key_text(key) for key in aggregate.order)}" if aggregate.order else ""
    filter = f" filter {render(aggregate.filter)}" if aggregate.filter is not None else ""
    return f"{aggregate.function}({distinct}{args}{collation}{order}){filter} as {aggregate.column.name}"
