"""SQLite's expressions: what they mean where other databases mean something else. Evaluates no row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.dialects.sqlite import literals
from headwater.dialects.sqlite.affinity import Affinity, computed_affinity
from headwater.dialects.sqlite.bind.operators import bind_as_sqlite, compare_as_sqlite
from headwater.dialects.sqlite.render import render
from headwater.model.errors import SqlError
from headwater.model.value import Row, Type, Value, type_of
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.common_type import common_type
from headwater.sql.ir.relation import RelColumn
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import Span, span


@dataclass(frozen=True, slots=True)
class SqliteBinder:
    """A `DialectBinder`."""

    takes_first: bool = True

    def bind(self, scope: Scope, node: exp.Expr) -> Bound:
        return bind_as_sqlite(scope, node)

    def bind_result(self, scope: Scope, node: exp.Expr) -> Bound:
        return bind_as_sqlite(scope, node)

    def collated(self, scope: Scope, inner: Callable[[], Bound], node: exp.Collate) -> Bound | None:
        named = bind_expr(scope, exp.Collate(this=exp.Null(), expression=node.expression.copy()))
        return Bound(inner().expr, named.collating)

    def compare(self, scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
        return compare_as_sqlite(scope, name, left, right, at)

    def marked(self, column: RelColumn) -> Bound:
        return Bound(reference(column))

    def values(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        values = [tuple(_constant(scope, node) for node in row) for row in rows]
        found = [common_type(map(type_of, column)) for column in zip(*values, strict=True)]
        return [(type or Type.INTEGER, computed_affinity(type)) for type in found], values

    def count(self, scope: Scope, node: exp.Expr, word: str) -> int | None:
        """A negative limit is none."""
        nothing = replace(scope, sources=(), shared={}, spelled={}, outer=None)
        expr = bind_expr(nothing, node).expr
        try:
            value: Value = literals.with_affinity(literals.evaluate(render(expr)), Affinity.NUMERIC)
        except sqlite3.Error as error:
            raise scope.error(f"{word}: {error}", span(node)) from None
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
            value = int(value)
        if not isinstance(value, int):
            raise scope.error(f"expected an integer for {word}, found {literals.write(value)}", span(node))
        return value if value >= 0 else None


def _constant(scope: Scope, node: exp.Expr) -> Value:
    try:
        return literals.evaluate(render(bind_expr(scope, node).expr))
    except sqlite3.Error as error:
        raise SqlError(str(error), sql=scope.sql, at=span(node)) from None


SQLITE_BINDER = SqliteBinder()
