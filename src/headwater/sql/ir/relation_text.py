"""A relation as indented text, one operator a line, its inputs beneath. Stable: relations are named by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from headwater.sql.ir.expr import Expr
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.relation import (
    Aggregate,
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
    inputs_of,
)


def tree(relation: Relation, text: ExprText, depth: int = 0) -> Iterator[str]:
    """`text` writes the expressions, with the literals of a dialect."""
    own = line(relation, text)
    yield f"{'   ' * (depth - 1)}└─ {own}" if depth else own
    for each in inputs_of(relation):
        yield from tree(each, text, depth + 1)


def line(relation: Relation, text: ExprText) -> str:
    match relation:
        case Scan() | Values():
            return _leaf(relation, text)
        case Filter():
            return f"filter {text.text(relation.predicate)}"
        case Project():
            return f"project {_names(text.output(output) for output in relation.outputs)}"
        case Join():
            return f"join {relation.kind}{_on(relation.on, text)}"
        case Exists():
            return f"{'anti' if relation.anti else 'semi'} join{_aware(relation.null_aware)}{_on(relation.on, text)}"
        case Mark():
            return f"mark {relation.column.name}{_aware(relation.null_aware)}{_on(relation.on, text)}"
        case Group():
            keys = _names(text.output(key) for key in relation.keys)
            aggregates = _names(_aggregate(aggregate, text) for aggregate in relation.aggregates)
            return f"group{f' by {keys}' if keys else ''}{f': {aggregates}' if aggregates else ''}"
        case Distinct():
            return "distinct"
        case SetOperation():
            columns = _names(column.name for column in relation.columns)
            return f"{relation.kind}{' all' if relation.all else ''} ({columns})"
        case Top():
            partition = f" per {_names(text.text(expr) for expr in relation.partition)}" if relation.partition else ""
            limit = "all" if relation.limit is None else relation.limit
            order = _names(text.key(key) for key in relation.order)
            return f"top {limit} offset {relation.offset}{partition} order {order}"
        case Demand():
            pairs = zip(relation.columns, relation.holes, strict=True)
            return f"demand {_names(f'{column} = :p{hole + 1}' for column, hole in pairs)}"
        case _:
            assert_never(relation)


def _leaf(relation: Scan | Values, text: ExprText) -> str:
    columns = _names(column.name for column in relation.columns)
    if isinstance(relation, Scan):
        key = f" key {', '.join(relation.key)}" if relation.key else " no key"
        return f"scan {relation.table} ({columns}){key}"
    rows = ", ".join(f"({_names(text.literal(value) for value in row)})" for row in relation.rows)
    return f"values ({columns}) {rows}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _on(on: Expr | None, text: ExprText) -> str:
    return "" if on is None else f" on {text.text(on)}"


def _aware(null_aware: bool) -> str:
    return " null-aware" if null_aware else ""


def _aggregate(aggregate: Aggregate, text: ExprText) -> str:
    args = _names(text.text(arg) for arg in aggregate.args) or "*"
    distinct = "distinct " if aggregate.distinct else ""
    collation = "" if aggregate.collation == "BINARY" else f" collate {aggregate.collation}"
    order = f" order {_names(text.key(key) for key in aggregate.order)}" if aggregate.order else ""
    filter = f" filter {text.text(aggregate.filter)}" if aggregate.filter is not None else ""
    return f"{aggregate.function}({distinct}{args}{collation}{order}){filter} as {aggregate.column.name}"
