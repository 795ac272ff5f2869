"""The results of a SELECT: `*` spelled out, names for what has none. The syntax tree is completed on the way."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headwater.sql.bind.clauses import Named, Whole
from headwater.sql.bind.from_clause import From, starred
from headwater.sql.bind.scope import Scope
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.syntax.span import span


def spell_out(whole: Whole, node: exp.Select, source: From) -> None:
    """`*` becomes the columns that it stands for."""
    items: list[exp.Expr] = []
    for item in node.expressions:
        items += _starred(whole, item, source) if _is_star(item) else [item]
    node.set("expressions", items)


def _starred(whole: Whole, item: exp.Expr, source: From) -> Iterator[exp.Expr]:
    only = item.table if isinstance(item, exp.Column) else None
    found = list(starred(source.sources, source.shared, only))
    if not found:
        scope = Scope(whole.sql, source.sources, whole.params)
        message = f"no such table here: {only}" if only else "no tables specified"
        raise scope.error(message, span(item), scope.known_tables())
    for name, table in found:
        qualifier = exp.to_identifier(table.name, quoted=True) if table else None
        column = exp.Column(this=exp.to_identifier(name, quoted=True), table=qualifier)
        column.meta.update(item.meta)
        column.meta["text"] = name
        yield column


def bound_results(scope: Scope, node: exp.Select) -> Iterator[Named]:
    """Each with its name, which the tree says too."""
    for place, item in enumerate(list(node.expressions)):
        inner = item.this if isinstance(item, exp.Alias) else item
        written = inner if item.alias else inner.copy()  # to bind may rewrite it, and only what has no alias is named
        bound = scope.dialect.binder.bind_result(scope, inner)
        inner = item.this if isinstance(item, exp.Alias) else node.expressions[place]
        named = written if not isinstance(inner, exp.Column) else inner
        name = item.alias or scope.dialect.names.result(named, bound.expr)
        if not item.alias and not (isinstance(inner, exp.Column) and isinstance(bound.expr, ColumnRef)):
            alias = exp.Alias(this=inner.copy(), alias=exp.to_identifier(name, quoted=True))
            alias.meta.update(inner.meta, added=True)
            node.expressions[place].replace(alias)
        yield name, bound


def spelled_results(dialect: Dialect, node: exp.Select) -> dict[str, exp.Expr]:
    """Of the results that can be used elsewhere by their names, the first of equals wins."""
    named = [
        (name.lower(), item.this if isinstance(item, exp.Alias) else item)
        for item in node.expressions
        if (name := dialect.names.sorts_by_result(item))
    ]
    return dict(reversed(named))


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
