"""The kinds of numeric: `numeric 2` shows two digits behind the point, `numeric` as many as each value has. Pure.

Of a known scale equal values look the same: such can be grouped by. Without one 1.0 and 1.00 are equal and differ.
The rules are those by which PostgreSQL chooses the scale of a result; nothing is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from headwater.dialects.postgres.types.kind import NUMERIC, PostgresKind, kind_of_type
from headwater.model.encoding.tagged_bytes import pack_number
from headwater.model.value import Type
from headwater.sql.ir.expr import Cast, Const, Expr

_DECLARED = re.compile(r"(?:numeric|decimal|dec)(?:\((\d+)(?:,(-?\d+))?\))?")
_LITERAL = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?\s*", re.ASCII)
_SPECIAL = {"nan": "NaN", **{f"{sign}{word}": f"{sign}Infinity" for sign in ("", "-") for word in ("inf", "infinity")}}
_PRECISION_MAX, _SCALE_MAX = 1000, 1000
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_WIDER = {"+", "-", "%"}
_KEPT = {"neg", "abs"}
_WHOLE = {"sign", "ceil", "floor", "div"}


def is_numeric(kind: PostgresKind) -> bool:
    return kind.base == NUMERIC.base


def scaled(scale: int | None) -> PostgresKind:
    return PostgresKind(NUMERIC.base, scale)


def scale_of(kind: PostgresKind) -> int | None:
    """None where values of the kind differ in it. A whole number has no digits behind the point."""
    return kind.scale if is_numeric(kind) else 0


def has_scale(kind: PostgresKind) -> bool:
    return is_numeric(kind) and scale_of(kind) is not None


def kind_of_declared(declared: str) -> PostgresKind | None:
    """Of `numeric(9,2)` and its like; None for what is none."""
    found = _DECLARED.fullmatch(declared)
    if found is None:
        return None
    return scaled(None if found[1] is None else max(int(found[2] or 0), 0))


def modifier(declared: str) -> str | None:
    """The name of the function that makes a number one of `numeric(9,2)`; None where there is nothing to do."""
    found = _DECLARED.fullmatch(declared)
    return None if found is None or found[1] is None else f"{NUMERIC.base}({int(found[1])},{int(found[2] or 0)})"


def is_declarable(declared: str) -> bool:
    """Whether PostgreSQL takes the precision and the scale."""
    found = _DECLARED.fullmatch(declared)
    if found is None or found[1] is None:
        return found is not None
    return 1 <= int(found[1]) <= _PRECISION_MAX and abs(int(found[2] or 0)) <= _SCALE_MAX


def kind_of_result(sign: str, kinds: Sequence[PostgresKind], args: Sequence[Expr]) -> PostgresKind:
    """Of an operator or function that makes a numeric of such arguments."""
    scales = [scale_of(kind) for kind in kinds]
    if sign in _WHOLE:
        return scaled(0)
    if sign.startswith("extract "):
        return scaled(_part_scale(sign, args[0]))
    if sign in ("round", "trunc"):
        return _rounded(args)
    known = [scale for scale in scales if scale is not None]
    if len(known) < len(scales):
        return NUMERIC
    if sign in _WIDER or sign in _KEPT:
        return scaled(max(known))
    return scaled(sum(known)) if sign == "*" and sum(known) <= _SCALE_MAX else NUMERIC


def _part_scale(sign: str, unit: Expr) -> int:
    """Seconds have six digits behind the point, but for those of a day."""
    name = unit.value if isinstance(unit, Const) else None
    return 6 if name == "second" or (name == "epoch" and sign != "extract date") else 3 if name == "milliseconds" else 0


def _rounded(args: Sequence[Expr]) -> PostgresKind:
    if len(args) == 1:
        return scaled(0)
    scale = args[1].value if isinstance(args[1], Const) else None
    return scaled(max(scale, 0)) if isinstance(scale, int) and scale <= _SCALE_MAX else NUMERIC


def common_scale(kinds: Iterable[PostgresKind]) -> PostgresKind:
    """Of branches of one type."""
    scales = {scale_of(kind) for kind in kinds}
    return scaled(scales.pop()) if len(scales) == 1 else NUMERIC


# Constants


def literal(text: str) -> Cast | None:
    """A constant as it is written: 1.5 and 1.50 are equal, and make results that look different. None for no number."""
    special = _SPECIAL.get(text.strip().lower())
    if special is not None:
        return Cast(Const(special, Type.TEXT), NUMERIC, Type.NUMERIC)
    if not _LITERAL.fullmatch(text):
        return None
    number = Decimal(text.strip())
    if int(number.as_tuple().exponent) > 0:
        number = number.quantize(Decimal(1), context=_EXACT)
    scale = -int(number.as_tuple().exponent)
    return Cast(Const(pack_number(_EXACT.plus(number)), Type.TEXT), scaled(scale), Type.NUMERIC)


def is_literal(expr: Expr) -> bool:
    return isinstance(expr, Cast) and is_numeric(kind_of_type(expr.sql_type)) and isinstance(expr.arg, Const)


def compared(expr: Expr) -> Expr:
    """A constant as the other side of a comparison, where how it looks does not count."""
    if is_literal(expr):
        assert isinstance(expr, Cast)
        assert isinstance(expr.arg, Const)
        return Const(_short(Decimal(str(expr.arg.value))), Type.NUMERIC)
    if isinstance(expr, Const) and isinstance(expr.value, int) and not isinstance(expr.value, bool):
        return Const(Decimal(expr.value), Type.NUMERIC)
    return expr


def _short(number: Decimal) -> Decimal:
    """Without the zeros behind the point."""
    if not number.is_finite():
        return number
    whole = number == number.to_integral_value()
    return number.quantize(Decimal(1), context=_EXACT) if whole else number.normalize(_EXACT)
