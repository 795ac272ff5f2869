"""SQLite's dialect: its grammar, its binding rules, its affinities. Never evaluates a row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.dialects.sqlite import affinity as types
from headwater.dialects.sqlite import literals
from headwater.dialects.sqlite.affinity import ROWID_NAMES, Affinity, declared_affinity, rowid_column
from headwater.dialects.sqlite.evaluator import SqliteEvaluator
from headwater.dialects.sqlite.functions import AGGREGATES
from headwater.dialects.sqlite.operators import bind_as_sqlite, compare_as_sqlite
from headwater.dialects.sqlite.render import render
from headwater.dialects.sqlite.requery import SQLITE_REQUERY
from headwater.dialects.sqlite.syntax.syntax import SQLITE_SYNTAX
from headwater.model.errors import SqlError
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value, type_of
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.order_by import Term
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.contracts.requery import DialectRequery
from headwater.sql.contracts.syntax import DialectSyntax
from headwater.sql.evaluation import Evaluator
from headwater.sql.ir.collation import COLLATIONS
from headwater.sql.ir.common_type import common_type
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr, OrderKey
from headwater.sql.ir.relation import RelColumn
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import Span, span

_NUMBERS = (Type.INTEGER, Type.REAL, None)
_AGGREGATES = frozenset({"avg", "count", "group_concat", "max", "min", "sum", "total"})
_EVALUATOR = SqliteEvaluator()


@dataclass(frozen=True, slots=True)
class Sqlite:
    name: str = "sqlite"
    syntax: DialectSyntax = SQLITE_SYNTAX
    requery: DialectRequery = SQLITE_REQUERY
    takes_first: bool = True
    aggregates: frozenset[str] = _AGGREGATES
    evaluator: Evaluator = _EVALUATOR

    # Names

    def find(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        if node.db and node.db.lower() != "main":
            raise SqlError(f"no such schema: {node.db}", sql=sql, at=span(node.args["db"]), hint="only main is known")
        found = tables.get(node.name.lower())
        if found is not None:
            node.set("db", None)
            node.set("this", exp.to_identifier(found.name, quoted=True))
        return found

    def result_name(self, node: exp.Expr, expr: Expr) -> str:
        """A column's own name, else the text as written. What USING coalesced is no column, whatever it looks like."""
        is_column = isinstance(node, exp.Column) and isinstance(expr, ColumnRef)
        return node.name if is_column else str(node.meta.get("text"))

    def sees_alias(self, node: exp.Column) -> bool:
        return True

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        """Only names that the user gave with AS."""
        return item.alias if isinstance(item, exp.Alias) and "added" not in item.meta else None

    def rowid(self, table: Table) -> Column | None:
        return rowid_column(table)

    def is_rowid(self, name: str) -> bool:
        return name in ROWID_NAMES

    def whole_number(self, text: str) -> int | None:
        value = literals.read_number(text)
        return value if isinstance(value, int) else None

    # Expressions

    def is_aggregate(self, name: str, args: int) -> bool:
        """min() and max() of several arguments are scalar functions."""
        return name in AGGREGATES and (name not in ("min", "max") or args == 1)

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

    # Types

    def scanned(self, column: Column) -> tuple[SqlType, str]:
        return declared_affinity(column.declared), column.collation.upper()

    def sql_type(self, expr: Expr) -> SqlType:
        """One that was computed has none: for text and blobs that is BLOB's."""
        own = types.affinity(expr)
        return _computed(expr.type) if own is None else own

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        """How the column compares outside, SQLite leaves open where its sides differ."""
        found = common_type([left.type, right.type])
        if found is Type.ANY and not left.type is right.type is Type.ANY:
            return None
        affinities = {types.affinity(side) for side in (left, right) if side != Const(None, None)}
        if len(affinities) > 1:
            return found, Affinity.NONE, False
        own = affinities.pop() if affinities else None
        return found, _computed(found) if own is None else own, True

    def looks_alike(self, bound: Bound) -> bool:
        collation = bound.collating.name or "BINARY"
        return bound.expr.type is not Type.ANY and (bound.expr.type is not Type.TEXT or collation == "BINARY")

    def aggregated(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        return args

    def orders(self, bound: Bound) -> bool:
        return True

    def arranged(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        """group_concat takes rows as they come: of one table, in the order of its key."""
        if node.name.lower() != "group_concat":
            return ()
        if scope.outer is not None:
            # SQLite may read the rows by an index of its own making, whatever order they were put in.
            raise scope.refusal(
                "group_concat() in a subquery has no certain order", span(node), "write it as a join with a group"
            )
        if not rows or node.args.get("distinct"):
            raise scope.refusal(
                "group_concat() over joins, groups or DISTINCT has no certain order",
                span(node),
                "concatenate the rows of one table",
            )
        return rows

    def aggregate(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        name = node.name.lower()
        type = args[0].expr.type if args else None
        if name in ("sum", "avg", "total") and type not in _NUMBERS:
            raise scope.refusal(f"{name}() of what is no number is not supported yet", span(node), "CAST it to REAL")
        if name in ("min", "max") and not self.looks_alike(args[0]):
            raise scope.refusal(
                f"{name}() of values that are equal and yet look different has no one answer",
                span(node),
                "add COLLATE BINARY, or CAST to one type",
            )
        result = _result(name, type)
        return result, _computed(result)

    def listed(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        values = [tuple(_constant(scope, node) for node in row) for row in rows]
        found = [common_type(map(type_of, column)) for column in zip(*values, strict=True)]
        return [(type or Type.INTEGER, _computed(type)) for type in found], values

    # Order and frame

    def order_key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey:
        collation = bound.collating.name or "BINARY"
        if collation not in COLLATIONS:
            raise scope.refusal(
                f"the collation {collation} is not supported yet", span(ordered), "add COLLATE BINARY or COLLATE NOCASE"
            )
        return OrderKey(bound.expr, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")), collation)

    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        collation = bound.collating.name or "BINARY"
        if collation not in COLLATIONS:
            raise scope.refusal(
                f"the column {name} is collated {collation}, which is not supported yet",
                at,
                "leave out ORDER BY and LIMIT",
            )
        return Term(OrderKey(bound.expr, collation=collation), node)

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        terms = []
        if (bound.collating.name or "BINARY") != "BINARY":
            binary = exp.Collate(this=node.copy(), expression=exp.to_identifier("BINARY"))
            terms.append(Term(OrderKey(bound.expr), binary))
        if bound.expr.type is Type.ANY:
            typeof = exp.Anonymous(this="typeof", expressions=[node.copy()])
            terms.append(Term(OrderKey(Call("typeof", (bound.expr,), Type.TEXT)), typeof))
        return terms

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


def _computed(type: Type | None) -> Affinity:
    """Of a computed column."""
    return Affinity.BLOB if type in (Type.TEXT, Type.BLOB) else Affinity.NONE


def _constant(scope: Scope, node: exp.Expr) -> Value:
    try:
        return literals.evaluate(render(bind_expr(scope, node).expr))
    except sqlite3.Error as error:
        raise SqlError(str(error), sql=scope.sql, at=span(node)) from None


def _result(name: str, type: Type | None) -> Type:
    match name:
        case "count":
            return Type.INTEGER
        case "avg" | "total":
            return Type.REAL
        case "group_concat":
            return Type.TEXT
        case _:
            return type or Type.INTEGER


SQLITE = Sqlite()
