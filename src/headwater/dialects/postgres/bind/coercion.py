"""Types that meet on PostgreSQL: what is cast unasked, how a literal is read, what makes branches one type. Binds only.

Implicit casts become explicit here, so that whoever evaluates meets one type at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.dialects.postgres.bind import arrays as elements
from headwater.dialects.postgres.bind.temporal import DATED, TIMES, moved
from headwater.dialects.postgres.literals.temporal import READ, read
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.bpchar import MARK
from headwater.dialects.postgres.types.kind import (
    BOOL,
    DEFAULT,
    FLOAT4,
    FLOAT8,
    NUMERIC,
    REALS,
    TEXT,
    UNKNOWN,
    UUID,
    PostgresKind,
    element_of,
    is_array,
    is_enum,
    is_integer,
    is_other,
    is_text,
)
from headwater.dialects.postgres.types.kinds import BOOLEAN, common_kind, fits, kind_of, type_of_kind
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.model.value import Type
from headwater.sql.bind.scope import Scope
from headwater.sql.ir.expr import Cast, Const, Expr
from headwater.sql.syntax.span import Span

INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_TRUTHS = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
_TOLD = (UUID, *REALS, *TIMES)  # `||` and concat() write them as a cast to text does


def coerced(scope: Scope, expr: Expr, kind: PostgresKind, at: Span | None) -> Expr:
    """As PostgreSQL casts by itself; a literal or parameter is read by the type that is wanted."""
    own = kind_of(expr)
    if expr == Const(None, None):
        return Const(None, type_of_kind(kind)) if kind != UNKNOWN else expr
    if own == UNKNOWN:
        return read_literal(scope, expr, kind, at)
    if own == kind or (is_integer(own) and is_integer(kind)) or (is_text(own) and is_text(kind)):
        return expr
    if kind == FLOAT8 and is_integer(own):
        constant = isinstance(expr, Const) and isinstance(expr.value, int)
        return Const(float(expr.value), Type.REAL) if constant else Cast(expr, FLOAT8, Type.REAL)  # type: ignore[union-attr, arg-type]
    if own in DATED and kind in DATED and DATED.index(own) < DATED.index(kind):
        return moved(expr, kind)
    if is_numeric(own) or is_numeric(kind):
        return _converted(scope, expr, own, kind, at)
    raise scope.refusal(f"{own.title} as {kind.title} is not supported yet", at, "CAST it")


def _converted(scope: Scope, expr: Expr, own: PostgresKind, kind: PostgresKind, at: Span | None) -> Expr:
    """From and to numeric, as PostgreSQL does unasked."""
    if is_numeric(own) and (kind == FLOAT8 or is_numeric(kind)):
        return expr if kind != FLOAT8 else _as_real(scope, expr, at)
    if not is_integer(own) or not is_numeric(kind):
        raise scope.refusal(f"{own.title} as {kind.title} is not supported yet", at, "CAST it")
    known = numbers.literal(str(expr.value)) if isinstance(expr, Const) and expr.value is not None else None
    return known or Cast(expr, numbers.scaled(0), Type.NUMERIC)


def _as_real(scope: Scope, expr: Expr, at: Span | None) -> Expr:
    if isinstance(expr, Cast) and isinstance(expr.arg, Const) and isinstance(expr.arg.value, str):
        return _real(scope, expr.arg.value, at)
    return Cast(expr, FLOAT8, Type.REAL)


def read_literal(scope: Scope, expr: Expr, kind: PostgresKind, at: Span | None) -> Expr:
    """The text of a literal by the rules of a type."""
    assert isinstance(expr, Cast)
    assert isinstance(expr.arg, Const)
    text = str(expr.arg.value)
    if text.startswith(MARK) or is_text(kind) or is_enum(kind):
        return Const(text, Type.TEXT)
    if is_integer(kind) and INTEGER.fullmatch(text) and fits(int(text), kind):
        return Const(int(text), Type.INTEGER)
    if kind == FLOAT8 and _FLOAT.fullmatch(text):
        return _real(scope, text, at)
    if is_numeric(kind) and (number := numbers.literal(text)) is not None:
        return number
    if kind == BOOL and text.strip().lower() in _TRUTHS:
        return Const(_TRUTHS[text.strip().lower()], BOOLEAN)
    if kind.base in READ and (value := read(text, kind.base)) is not None:
        return Const(value, type_of_kind(kind))
    if is_array(kind) and (array := _read_array(scope, text, kind, at)) is not None:
        return array
    if kind == UNKNOWN:
        return expr
    raise scope.refusal(f"'{text}' as {kind.title} is not supported yet", at)


def _read_array(scope: Scope, text: str, kind: PostgresKind, at: Span | None) -> Expr | None:
    element = element_of(kind)
    return elements.read(text, kind, lambda item: read_literal(scope, unknown(item), element, at))


def unknown(text: str) -> Expr:
    return Cast(Const(text, Type.TEXT), UNKNOWN, Type.TEXT)


def _real(scope: Scope, text: str, at: Span | None) -> Const:
    value = float(text)
    if value in (float("inf"), float("-inf")) or (value == 0 and re.search("[1-9]", re.split("[eE]", text)[0])):
        raise scope.refusal(f"{text} is out of range for double precision", at)
    return Const(value, Type.REAL)


def settled(expr: Expr) -> Expr:
    """A literal that met nothing is text."""
    if kind_of(expr) == UNKNOWN and isinstance(expr, Cast) and isinstance(expr.arg, Const):
        return Const(expr.arg.value, Type.TEXT)
    return expr


def alike(scope: Scope, exprs: Sequence[Expr], at: Span | None) -> list[Expr]:
    """Branches of one type: as CASE, COALESCE and their like want them."""
    kinds = {kind_of(expr) for expr in exprs} - {UNKNOWN}
    kind = common_kind(exprs)
    if kind is None and kinds and all(map(is_number, kinds)):
        kind = FLOAT8 if FLOAT8 in kinds else NUMERIC
    if kind is None and kinds:
        raise scope.refusal(
            f"{' and '.join(sorted(kind.title for kind in kinds))} as one type is not supported yet", at
        )
    if kind is not None and is_other(kind):
        raise scope.refusal(f"computing with {kind.title} is not supported yet", at)
    return [coerced(scope, expr, kind or TEXT, at) for expr in exprs]


def widened(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """A `real` meets other numbers as a double. With its own kind alone it stays what it is."""
    kinds = {kind_of(left), kind_of(right)} - {FLOAT4, UNKNOWN}
    if not kinds or not all(map(is_number, kinds)):
        return left, right
    one, other = (Cast(side, FLOAT8, Type.REAL) if kind_of(side) == FLOAT4 else side for side in (left, right))
    return one, other


def is_number(kind: PostgresKind) -> bool:
    return is_integer(kind) or is_numeric(kind) or kind == FLOAT8


def as_text(scope: Scope, expr: Expr, at: Span | None) -> Expr:
    kind = kind_of(expr)
    if is_numeric(kind) or ((is_integer(kind) or kind in _TOLD) and not isinstance(expr, Const)):
        return Cast(expr, DEFAULT, Type.TEXT)
    if isinstance(expr, Const) and isinstance(expr.value, int) and is_integer(kind):
        return Const(str(expr.value), Type.TEXT)
    return coerced(scope, expr, TEXT, at)
