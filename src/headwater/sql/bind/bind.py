"""From text to a bound query: names resolved, every expression typed, parameters put in.

The rows of one table are bound here; everything that needs a relation, in `whole`. Never plans, never touches data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.dialects.registry import Tables, dialect_of
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.sql.bind.expression import bind_expr, is_aggregate
from headwater.sql.bind.group_by import calls_in
from headwater.sql.bind.limit import is_constant, limit, offset, ordinal
from headwater.sql.bind.query import bind_whole
from headwater.sql.bind.scope import Bound, Scope, Source, bound_column
from headwater.sql.dialect import Dialect
from headwater.sql.ir.conjunction import parts
from headwater.sql.ir.expr import ColumnRef, Expr, OrderKey, Output
from headwater.sql.ir.query import Query
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.parameters import Given, bind_params
from headwater.sql.syntax.parse import Parsed, parse
from headwater.sql.syntax.span import span
from headwater.sql.syntax.suggestions import did_you_mean, listed


def bind(sql: str, tables: Tables, params: Given = (), *, lift_scalars: bool = True) -> Query:
    """Parse, resolve and type. Raises `SqlError` for what SQLite would refuse, `UnsupportedQuery` for what we do."""
    parsed = parse(sql, dialect_of(tables))
    try:
        return bind_parsed(parsed, tables, params, lift_scalars=lift_scalars)
    except RecursionError:
        raise UnsupportedQuery("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None


def bind_parsed(parsed: Parsed, tables: Tables, params: Given = (), *, lift_scalars: bool = True) -> Query:
    every = tables.values() if isinstance(tables, Mapping) else tables
    select = parsed.select
    if not (parsed.dialect.has_plain and is_plain(parsed.dialect, select)):
        named = {table.name.lower(): table for table in every}
        return bind_whole(parsed, named, bind_params(parsed, params), lift_scalars)
    table = _table(parsed, every)
    scope = Scope(
        parsed.sql,
        (Source.of(parsed.dialect, table, select.args["from_"].alias or table.name),),
        bind_params(parsed, params),
    )
    columns = list(_result(scope, table, select.expressions))
    _refuse_duplicates(scope, columns)
    outputs = tuple(Output(name, bound.expr) for name, bound, _ in columns)
    inner = replace(scope, aliases=_aliases(columns))
    where = select.args.get("where")
    return Query(
        sql=parsed.sql,
        table=table.name,
        outputs=outputs,
        where=tuple(parts("and", bind_expr(inner, where.this).expr)) if where else (),
        order=_order(inner, select.args.get("order"), [bound for _, bound, _ in columns]),
        framed=bool(select.args.get("limit")),
        limit=limit(scope, select.args.get("limit")),
        offset=offset(scope, select.args.get("offset")),
    )


# The statement


def is_plain(dialect: Dialect, select: exp.Expr) -> bool:
    """Rows of one table, each by itself: no relation is needed for it."""
    if not isinstance(select, exp.Select) or isinstance(select.args.get("from_"), Joined | exp.Subquery):
        return False
    if any(select.args.get(clause) for clause in ("with_", "distinct", "group", "having")):
        return False
    inside = any(node is not select for node in select.find_all(exp.Query, exp.Values))
    return not inside and not any(is_aggregate(dialect, call) for call in calls_in_select(select))


def calls_in_select(select: exp.Select) -> Iterator[exp.Anonymous]:
    for part in select.iter_expressions():
        yield from calls_in(part)


def _table(parsed: Parsed, tables: Iterable[Table]) -> Table:
    node = parsed.select.args.get("from_")
    if node is None:
        hint = "add FROM and a table"
        raise UnsupportedQuery("a SELECT without FROM never changes", sql=parsed.sql, at=span(parsed.select), hint=hint)
    return _find_table(parsed, node, tables)


def _find_table(parsed: Parsed, node: exp.Table, tables: Iterable[Table]) -> Table:
    if node.db and node.db.lower() != "main":
        raise SqlError(
            f"no such schema: {node.db}", sql=parsed.sql, at=span(node.args["db"]), hint="only main is known"
        )
    known = {table.name.lower(): table for table in tables}
    found = known.get(node.name.lower())
    if found is not None:
        return found
    names = [table.name for table in known.values()]
    hint = did_you_mean(node.name, names, f"there is {listed(names)}" if names else "there are no tables")
    raise SqlError(f"no such table: {node.name}", sql=parsed.sql, at=span(node.this), hint=hint)


# The result columns

_Named = tuple[str, Bound, exp.Expr]


def _result(scope: Scope, table: Table, items: Sequence[exp.Expr]) -> Iterator[_Named]:
    for item in items:
        if _is_star(scope, item):
            for column in table.columns:
                yield column.name, bound_column(scope.dialect, column), item
        elif isinstance(item, exp.Alias):
            yield item.alias, bind_expr(scope, item.this), item
        else:
            bound = bind_expr(scope, item)
            yield own_name(item, bound.expr), bound, item


def _is_star(scope: Scope, item: exp.Expr) -> bool:
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
        return isinstance(item, exp.Star)
    name = scope.sources[0].name
    if item.table.lower() != name.lower():
        raise scope.error(f"no such table here: {item.table}", span(item), f"the table is known as {name}")
    return True


def own_name(item: exp.Expr, expr: Expr) -> str:
    """SQLite's: a column's own name, else the text as written."""
    is_column = isinstance(item, exp.Column | exp.Boolean) and isinstance(expr, ColumnRef)
    return expr.name if is_column and isinstance(expr, ColumnRef) else str(item.meta["text"])


def _refuse_duplicates(scope: Scope, columns: Sequence[_Named]) -> None:
    twice = [name for name, count in Counter(name for name, _, _ in columns).items() if count > 1]
    if twice:
        second = [item for name, _, item in columns if name == twice[0]][1]
        raise scope.refusal(
            f"two result columns are named {twice[0]}", span(second), f"give one another name: … AS {twice[0]}_2"
        )


def _aliases(columns: Sequence[_Named]) -> dict[str, Bound]:
    """Only names given with AS can be used elsewhere; the first of equals wins."""
    named = [(name.lower(), bound) for name, bound, item in columns if isinstance(item, exp.Alias)]
    return dict(reversed(named))


# ORDER BY


def _order(scope: Scope, order: exp.Order | None, results: Sequence[Bound]) -> tuple[OrderKey, ...]:
    if order is None:
        return ()
    keys = [
        scope.dialect.order_key(scope, ordered, _key_expr(scope, ordered.this, results))
        for ordered in order.expressions
    ]
    return tuple(key for key in keys if not is_constant(key.expr))


def _key_expr(scope: Scope, node: exp.Expr, results: Sequence[Bound]) -> Bound:
    """An alias first, then the number of a result column, then any expression."""
    if isinstance(node, exp.Collate):
        inner = _key_expr(scope, node.this, results)
        named = bind_expr(scope, exp.Collate(this=exp.Null(), expression=node.expression))
        return Bound(inner.expr, named.collating)
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in scope.aliases:
        return scope.aliases[node.name.lower()]
    number = ordinal(scope.dialect, node)
    if number is None:
        return bind_expr(scope, node)
    if not 1 <= number <= len(results):
        raise scope.error(f"ORDER BY {number}: there are {len(results)} result columns", span(node))
    return results[number - 1]
