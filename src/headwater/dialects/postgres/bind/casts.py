"""CAST, COLLATE and AT TIME ZONE of PostgreSQL: those whose results we know exactly. Binds, never evaluates."""

from __future__ import annotations

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import coerced, read_literal, settled
from headwater.dialects.postgres.bind.json import literal_text
from headwater.dialects.postgres.bind.temporal import CASTS, DATED, moved
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.bpchar import as_text as as_unpadded
from headwater.dialects.postgres.types.bpchar import is_padded
from headwater.dialects.postgres.types.kind import (
    DEFAULT,
    FLOAT8,
    INTEGERS,
    NUMERIC,
    REALS,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    PostgresKind,
    is_enum,
    is_other,
    is_text,
)
from headwater.dialects.postgres.types.kinds import SPELLINGS, kind_of, type_of_kind
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Cast, Const, Expr
from headwater.sql.syntax.span import Span, span

_NUMBERED = tuple(kind.base for kind in INTEGERS)
_CASTS = {
    ("bool", "int4"),
    ("int4", "bool"),
    ("bool", "text"),
    ("float8", "int2"),
    ("float8", "int4"),
    ("float8", "int8"),
    ("float8", "text"),
    *(("float4", base) for base in (*_NUMBERED, "float8", "text")),
    *((base, "text") for base in (*_NUMBERED, "uuid")),
    *(("text", base) for base in (*_NUMBERED, "float8", "bool", "uuid")),
    *((base, "text") for base in ("bytea", "json", "jsonb")),
    *CASTS,
    *((base, "float8") for base in _NUMBERED),
    *((one, other) for one in _NUMBERED for other in _NUMBERED),
}


def cast(scope: Scope, node: exp.Cast) -> Bound:
    arg, wanted = bind_expr(scope, node.this).expr, SPELLINGS.get(node.args["to"].name)
    kind, at = kind_of(arg), span(node)
    if wanted is None and numbers.is_declarable(node.args["to"].name):
        return Bound(_as_declared(scope, arg, node.args["to"].name, at))
    if wanted is None:
        raise scope.refusal(f"the type {node.args['to'].name} is not supported yet", at)
    if is_numeric(kind) and wanted in (*INTEGERS, FLOAT8, TEXT) and not numbers.is_literal(arg):
        return Bound(_cast_to(arg, wanted))
    if kind == UNKNOWN or numbers.is_literal(arg) or arg == Const(None, None):
        constant = read_literal(scope, arg, wanted, at) if isinstance(arg, Cast) else coerced(scope, arg, wanted, at)
        return Bound(_cast_constant(constant, wanted))
    if kind == wanted or (is_text(kind) and wanted == TEXT):
        return Bound(arg)
    if is_padded(kind) and wanted == TEXT:
        return Bound(as_unpadded(arg, kind))
    readable = (is_other(kind) or is_enum(kind)) and wanted == TEXT and arg.type is Type.TEXT
    if (kind.base, wanted.base) not in _CASTS and not readable:
        raise scope.refusal(f"CAST of {kind.title} to {wanted.base} is not supported yet", at)
    if wanted in DATED:
        return Bound(moved(arg, wanted))
    return Bound(_cast_to(arg, wanted))


def _cast_to(arg: Expr, kind: PostgresKind) -> Expr:
    return Cast(arg, DEFAULT if kind == TEXT else kind, type_of_kind(kind))


def _cast_constant(expr: Expr, kind: PostgresKind) -> Expr:
    return expr if kind_of(expr) == kind else Cast(expr, kind, type_of_kind(kind))


def _as_declared(scope: Scope, arg: Expr, declared: str, at: Span | None) -> Expr:
    """As numeric, and then with the precision and scale that are wanted."""
    if kind_of(arg) in REALS:
        number: Expr = Cast(arg, NUMERIC, Type.NUMERIC)
    else:
        number = coerced(scope, arg, NUMERIC, at)
    name = numbers.modifier(declared)
    return number if name is None else Call(name, (number,), Type.NUMERIC)


def collate(scope: Scope, node: exp.Collate) -> Bound:
    arg = settled(bind_expr(scope, node.this).expr)
    if node.expression.name not in ("C", "POSIX") or not is_text(kind_of(arg)):
        raise scope.refusal(f"the collation {node.expression.name} is not supported yet", span(node), 'use "C"')
    return Bound(arg if kind_of(arg) == TEXT else Cast(arg, TEXT, Type.TEXT))


def zoned(scope: Scope, node: exp.AtTimeZone) -> Bound:
    """Other zones have rules that change from release to release."""
    arg, zone = (bind_expr(scope, side).expr for side in (node.this, node.args["zone"]))
    other = {TIMESTAMP: TIMESTAMPTZ, TIMESTAMPTZ: TIMESTAMP}.get(kind_of(arg))
    if other is None or literal_text(zone) != "UTC":
        raise scope.refusal("a time zone but 'UTC' is not supported yet", span(node))
    return Bound(moved(arg, other))
