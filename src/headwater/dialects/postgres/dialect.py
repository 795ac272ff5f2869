"""PostgreSQL as a `Dialect`: names, order, aggregates and frames. Never evaluates a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import coerced, settled
from headwater.dialects.postgres.bind.comparison import compare
from headwater.dialects.postgres.bind.operators import bind
from headwater.dialects.postgres.bind.ordered_aggregates import COLLECTING, arranged, collected, taken
from headwater.dialects.postgres.bind.values_clause import listed
from headwater.dialects.postgres.evaluator import PostgresEvaluator
from headwater.dialects.postgres.requery import POSTGRES_REQUERY
from headwater.dialects.postgres.syntax.ambiguous_names import refuse_alike
from headwater.dialects.postgres.syntax.syntax import POSTGRES_SYNTAX
from headwater.dialects.postgres.types.bpchar import as_text, is_padded
from headwater.dialects.postgres.types.kind import (
    BOOL,
    BYTEA,
    DEFAULT,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    PLAIN,
    REALS,
    TEXT,
    UNKNOWN,
    UUID,
    PostgresKind,
    is_enum,
    is_integer,
    is_other,
    is_text,
)
from headwater.dialects.postgres.types.kinds import BOOLEAN, SPELLINGS, common_kind, is_plain, kind_of, kind_of_column
from headwater.dialects.postgres.types.numeric import has_scale, is_numeric, scale_of, scaled
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.order_by import Term
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.contracts.requery import DialectRequery
from headwater.sql.contracts.syntax import DialectSyntax
from headwater.sql.evaluation import Evaluator
from headwater.sql.ir.expr import Call, Cast, Const, Expr, OrderKey
from headwater.sql.ir.relation import RelColumn
from headwater.sql.ir.sql_type import SqlType
from headwater.sql.syntax.span import Span, span

_SUMS = (INT2, INT4)
_TRUTHS = ("bool_and", "bool_or", "every")
_AGGREGATES = frozenset({"avg", "count", "max", "min", "sum", *_TRUTHS, *COLLECTING})
_EVALUATOR = PostgresEvaluator()
_UNSIGNED = Const(0.0, Type.REAL)


@dataclass(frozen=True, slots=True)
class Postgres:
    name: str = "postgres"
    syntax: DialectSyntax = POSTGRES_SYNTAX
    requery: DialectRequery = POSTGRES_REQUERY
    takes_first: bool = False
    aggregates: frozenset[str] = _AGGREGATES
    evaluator: Evaluator = _EVALUATOR

    # Names

    def find(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        schema = node.db or "public"
        name = node.name if schema == "public" else f"{schema}.{node.name}"
        found = tables.get(name.lower())
        if found is None or found.name != name:
            return None
        root = node.root()
        refuse_alike(root, "", found.names)
        node.set("db", exp.to_identifier(schema, quoted=True))
        return found

    def result_name(self, node: exp.Expr, expr: Expr) -> str:
        return _result_name(node) or "?column?"

    def sees_alias(self, node: exp.Column) -> bool:
        """Only where the name stands alone in GROUP BY or ORDER BY."""
        return isinstance(node.parent, exp.Group | exp.Ordered)

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        return item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column) else None

    def rowid(self, table: Table) -> Column | None:
        return None

    def is_rowid(self, name: str) -> bool:
        return False

    def whole_number(self, text: str) -> int | None:
        return int(text) if text.isascii() and text.isdigit() else None

    # Expressions

    def is_aggregate(self, name: str, args: int) -> bool:
        return name in self.aggregates

    def bind(self, scope: Scope, node: exp.Expr) -> Bound:
        return bind(scope, node)

    def bind_result(self, scope: Scope, node: exp.Expr) -> Bound:
        return Bound(settled(bind(scope, node).expr))

    def compare(self, scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
        return compare(scope, name, left, right, at)

    def collated(self, scope: Scope, inner: Callable[[], Bound], node: exp.Collate) -> Bound | None:
        return None

    def marked(self, column: RelColumn) -> Bound:
        return Bound(Call("=", (reference(column), Const(1, Type.INTEGER)), BOOLEAN))

    # Types

    def scanned(self, column: Column) -> tuple[SqlType, str]:
        return kind_of_column(column), "BINARY"

    def sql_type(self, expr: Expr) -> SqlType:
        return kind_of(expr)

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        kind = common_kind([left, right])
        if kind is None or left.type is not right.type or UNKNOWN in (kind_of(left), kind_of(right)):
            return None
        return left.type, kind, True

    def looks_alike(self, bound: Bound) -> bool:
        return is_plain(kind_of(bound.expr))

    def _counts_once(self, bound: Bound) -> bool:
        kind = kind_of(bound.expr)
        return self.looks_alike(bound) or is_numeric(kind) or kind in REALS

    def aggregated(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        """Which zero is the least or the largest PostgreSQL leaves open: it is shown without a sign."""
        if node.name not in ("min", "max") or kind_of(args[0].expr) != FLOAT8:
            return taken(scope, node, args)
        match args[0].expr:
            case Call(name="float8 +", args=(_, other)) if other == _UNSIGNED:
                return args
        arg = node.expressions[0]
        arg.replace(exp.Add(this=arg.copy(), expression=exp.Literal.number("0.0")))
        return [Bound(Call("float8 +", (args[0].expr, _UNSIGNED), Type.REAL))]

    def arranged(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        return arranged(scope, node, args)

    def orders(self, bound: Bound) -> bool:
        kind = kind_of(bound.expr)
        return kind in PLAIN or has_scale(kind)

    def aggregate(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        name, kind = node.name, kind_of(args[0].expr) if args else PostgresKind("")
        distinct = bool(node.args.get("distinct"))
        if name == "count" and not (distinct and not self._counts_once(args[0])):
            return Type.INTEGER, INT8
        if name in _TRUTHS and kind == BOOL:
            return Type.BOOLEAN, BOOL
        if name == "sum" and kind in _SUMS:
            return Type.INTEGER, INT8
        if name in ("min", "max") and kind in PLAIN - {BOOL, UUID, BYTEA} and args[0].expr.type is not None:
            return args[0].expr.type, kind
        found = collected(node, args) if name in COLLECTING else _aggregated(name, kind, distinct)
        if found is not None:
            return found
        raise scope.refusal(
            f"the aggregate {name}({_told(kind)}) is not supported yet", span(node), "the origin computes it"
        )

    def listed(self, scope: Scope, rows: Sequence[Sequence[exp.Expr]]) -> tuple[list[tuple[Type, SqlType]], list[Row]]:
        return listed(scope, rows)

    # Order and frame

    def order_key(self, scope: Scope, ordered: exp.Ordered, bound: Bound) -> OrderKey:
        descending, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        bound = Bound(as_text(bound.expr, kind_of(bound.expr)))
        kind = kind_of(bound.expr)
        if kind not in PLAIN | {INTERVAL, *REALS} and not is_numeric(kind):
            raise _unordered(scope, kind, span(ordered))
        return OrderKey(bound.expr, descending, nulls_first)

    def tie(self, scope: Scope, name: str, node: exp.Expr, bound: Bound, at: Span | None) -> Term:
        """By its bytes, or those of its text: any order will do that is the same here and there."""
        kind, expr = kind_of(bound.expr), bound.expr
        if kind in PLAIN or has_scale(kind):
            return Term(OrderKey(expr), node)
        if expr.type is not Type.TEXT and not (is_numeric(kind) or kind in REALS):
            raise _unordered(scope, kind, at)
        text = node if is_text(kind) else exp.Cast(this=node, to=exp.Var(this="text"))
        return Term(OrderKey(_by_bytes(expr, kind)), exp.Collate(this=text, expression=_C.copy()))

    def finer(self, node: exp.Expr, bound: Bound) -> list[Term]:
        return []

    def count(self, scope: Scope, node: exp.Expr, word: str) -> int | None:
        nothing = replace(scope, sources=(), shared={}, spelled={}, outer=None)
        value = coerced(scope, bind_expr(nothing, node).expr, INT8, span(node))
        if isinstance(value, Const) and value.value is None:
            return None
        if not isinstance(value, Const) or not isinstance(value.value, int) or value.value < 0:
            raise scope.refusal(f"{word} takes a number that is not negative", span(node))
        return value.value


def _by_bytes(expr: Expr, kind: PostgresKind) -> Expr:
    """What `CAST(… AS text) COLLATE "C"` is bound as."""
    if not is_text(kind):
        expr = as_text(expr, kind) if is_padded(kind) else Cast(expr, DEFAULT, Type.TEXT)
    return expr if kind_of(expr) == TEXT else Cast(expr, TEXT, Type.TEXT)


def _aggregated(name: str, kind: PostgresKind, distinct: bool) -> tuple[Type, PostgresKind] | None:
    """Of numbers. Which of 1.0 and 1.00 is the larger, or counts once, PostgreSQL leaves open."""
    if kind == FLOAT8 and (name in ("min", "max") or (name in ("sum", "avg") and not distinct)):
        return Type.REAL, kind
    if not (is_integer(kind) or is_numeric(kind)):
        return None
    if name in ("min", "max"):
        return (Type.NUMERIC, kind) if has_scale(kind) else None
    if distinct and is_numeric(kind) and not has_scale(kind):
        return None
    return {"sum": (Type.NUMERIC, scaled(scale_of(kind))), "avg": (Type.NUMERIC, NUMERIC)}.get(name)


_C = exp.Identifier(this="C", quoted=True)


def _unordered(scope: Scope, kind: PostgresKind, at: Span | None) -> UnsupportedQuery:
    if is_text(kind):
        return scope.refusal(
            f"only PostgreSQL knows the order of the collation {kind.collation}",
            at,
            'add COLLATE "C" to order by bytes',
        )
    if is_enum(kind):
        return scope.refusal(
            "only PostgreSQL knows the order of an enum", at, "CAST it to text to order by its letters"
        )
    return scope.refusal(f"ordering by {_told(kind)} is not supported yet", at)


def _told(kind: PostgresKind) -> str:
    return kind.title if is_other(kind) else str(kind)


def _result_name(node: exp.Expr) -> str | None:
    """As PostgreSQL names a column that nobody named."""
    match node:
        case exp.Column() | exp.Anonymous():
            return str(node.name)
        case exp.Cast():
            return _result_name(node.this) or _type_name(node.args["to"].name)
        case exp.Collate():
            return _result_name(node.this)
        case exp.AtTimeZone():
            return "timezone"
        case exp.Case():
            default = node.args.get("default")
            return (_result_name(default) if isinstance(default, exp.Column) else None) or "case"
        case exp.Boolean():
            return "bool"
        case exp.Exists():
            return "exists"
        case exp.Subquery() if isinstance(node.this, exp.Select):
            item = node.this.expressions[0]
            return item.alias or _result_name(item)
        case _:
            return None


def _type_name(written: str) -> str:
    kind = SPELLINGS.get(written)
    return written if kind is None else kind.base


POSTGRES = Postgres()
