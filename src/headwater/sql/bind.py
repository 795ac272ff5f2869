"""From text to a bound query: one table, its columns resolved, every expression typed, parameters put in.

What SELECT can do beyond that is refused with its place and a hint. Never plans, never touches data.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.model.value import Value
from headwater.sql import literal, types
from headwater.sql.chain import parts
from headwater.sql.expr import Call, Case, Cast, ColumnRef, Const, Expr, OrderKey, Output
from headwater.sql.grammar import Plus
from headwater.sql.names import did_you_mean, listed
from headwater.sql.operators import bind_expr
from headwater.sql.params import Given, bind_params
from headwater.sql.parse import Parsed, parse, span
from headwater.sql.query import Query
from headwater.sql.render import render
from headwater.sql.scope import Bound, Scope, bound_column

Tables = Mapping[str, Table] | Sequence[Table]


def bind(sql: str, tables: Tables, params: Given = ()) -> Query:
    """Parse, resolve and type. Raises `SqlError` for what SQLite would refuse, `UnsupportedQuery` for what we do."""
    parsed = parse(sql)
    try:
        return bind_parsed(parsed, tables, params)
    except RecursionError:
        raise UnsupportedQuery("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None


def bind_parsed(parsed: Parsed, tables: Tables, params: Given = ()) -> Query:
    scope = _scope(parsed, tables, params)
    select = parsed.select
    columns = list(_result(scope, select.expressions))
    _refuse_duplicates(scope, columns)
    outputs = tuple(Output(name, bound.expr) for name, bound, _ in columns)
    inner = replace(scope, aliases=_aliases(columns))
    where = select.args.get("where")
    return Query(
        sql=parsed.sql,
        table=scope.table.name,
        outputs=outputs,
        where=tuple(parts("and", bind_expr(inner, where.this).expr)) if where else (),
        order=_order(inner, select.args.get("order"), [bound for _, bound, _ in columns]),
        framed=bool(select.args.get("limit")),
        limit=_limit(scope, select.args.get("limit")),
        offset=_offset(scope, select.args.get("offset")),
    )


def is_constant(expr: Expr) -> bool:
    """No column inside: the same for every row."""
    match expr:
        case ColumnRef():
            return False
        case Const():
            return True
        case Cast():
            return is_constant(expr.arg)
        case Call():
            return all(is_constant(arg) for arg in expr.args)
        case Case():
            return is_constant(expr.default) and all(is_constant(part) for pair in expr.whens for part in pair)


# The statement


def _scope(parsed: Parsed, tables: Tables, params: Given) -> Scope:
    node = parsed.select.args.get("from_")
    if node is None:
        hint = "add FROM and a table"
        raise UnsupportedQuery("a SELECT without FROM never changes", sql=parsed.sql, at=span(parsed.select), hint=hint)
    table = _find_table(parsed, node, tables.values() if isinstance(tables, Mapping) else tables)
    return Scope(parsed.sql, table, node.alias or table.name, bind_params(parsed, params))


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


def _result(scope: Scope, items: Sequence[exp.Expr]) -> Iterator[_Named]:
    for item in items:
        if _is_star(scope, item):
            for column in scope.table.columns:
                yield column.name, bound_column(column), item
        elif isinstance(item, exp.Alias):
            yield item.alias, bind_expr(scope, item.this), item
        else:
            bound = bind_expr(scope, item)
            yield _own_name(item, bound.expr), bound, item


def _is_star(scope: Scope, item: exp.Expr) -> bool:
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
        return isinstance(item, exp.Star)
    if item.table.lower() != scope.name.lower():
        raise scope.error(f"no such table here: {item.table}", span(item), f"the table is known as {scope.name}")
    return True


def _own_name(item: exp.Expr, expr: Expr) -> str:
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


# ORDER BY, LIMIT, OFFSET


def _order(scope: Scope, order: exp.Order | None, results: Sequence[Bound]) -> tuple[OrderKey, ...]:
    if order is None:
        return ()
    keys = [_key(scope, ordered, results) for ordered in order.expressions]
    return tuple(key for key in keys if not is_constant(key.expr))


def _key(scope: Scope, ordered: exp.Ordered, results: Sequence[Bound]) -> OrderKey:
    bound = _key_expr(scope, ordered.this, results)
    collation = bound.collating.name or "BINARY"
    if collation not in types.COLLATIONS:
        raise scope.refusal(
            f"the collation {collation} is not supported yet", span(ordered), "add COLLATE BINARY or COLLATE NOCASE"
        )
    return OrderKey(bound.expr, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")), collation)


def _key_expr(scope: Scope, node: exp.Expr, results: Sequence[Bound]) -> Bound:
    """An alias first, then the number of a result column, then any expression."""
    if isinstance(node, exp.Collate):
        inner = _key_expr(scope, node.this, results)
        named = bind_expr(scope, exp.Collate(this=exp.Null(), expression=node.expression))
        return Bound(inner.expr, named.collating)
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in scope.aliases:
        return scope.aliases[node.name.lower()]
    number = _ordinal(node)
    if number is None:
        return bind_expr(scope, node)
    if not 1 <= number <= len(results):
        raise scope.error(f"ORDER BY {number}: there are {len(results)} result columns", span(node))
    return results[number - 1]


def _ordinal(node: exp.Expr) -> int | None:
    """SQLite counts only a written integer, perhaps signed; a parameter is a constant like any other."""
    if isinstance(node, exp.Neg | Plus):
        inner = _ordinal(node.this)
        return inner if inner is None or isinstance(node, Plus) else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = literal.read_number(node.name)
    return value if isinstance(value, int) and value < 1 << 31 else None


def _limit(scope: Scope, node: exp.Limit | None) -> int | None:
    """A negative limit is none."""
    count = -1 if node is None else _count(scope, node.expression, "LIMIT")
    return count if count >= 0 else None


def _offset(scope: Scope, node: exp.Offset | None) -> int:
    return 0 if node is None else max(_count(scope, node.expression, "OFFSET"), 0)


def _count(scope: Scope, node: exp.Expr, word: str) -> int:
    nothing = replace(scope, table=replace(scope.table, columns=(), key=()))
    expr = bind_expr(nothing, node).expr
    try:
        value: Value = literal.with_affinity(literal.evaluate(render(expr)), "NUMERIC")
    except sqlite3.Error as error:
        raise scope.error(f"{word}: {error}", span(node)) from None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
        value = int(value)
    if not isinstance(value, int):
        raise scope.error(f"expected an integer for {word}, found {literal.write(value)}", span(node))
    return value
