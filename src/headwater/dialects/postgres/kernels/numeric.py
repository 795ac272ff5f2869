"""PostgreSQL's numeric: numbers of any size, each with a scale of its own, NaN and both infinities. Pure, exact.

A number is a Decimal whose exponent is minus the number of digits shown behind the point; none is positive, and there
is no negative zero. NaN equals itself and is larger than any other number. Nothing here rounds but where PostgreSQL
does, and then halves go away from zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MAX_PREC,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
)
from typing import Any

from headwater.dialects.postgres.kernels.float_text import widened
from headwater.dialects.postgres.kernels.functions import BOUNDS, TITLES, comparison, whole
from headwater.sql.evaluation import EvaluationError

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
NAN = Decimal("NaN")
_ZERO, _ONE = Decimal(0), Decimal(1)
_WHOLE_DIGITS_MAX = 131072
_SCALE_MAX = 16383
_QUOTIENT_DIGITS_MIN = 16
_QUOTIENT_SCALE_MAX = 1000
_BASE_DIGITS = 4  # PostgreSQL counts in digits of ten thousand
_TYPMOD = re.compile(r"numeric\((\d+),(-?\d+)\)")


def read(text: str) -> Decimal:
    """The number that a text stands for, an exponent spelled out."""
    return spelled(Decimal(text.strip()))


def spelled(number: Decimal) -> Decimal:
    if not number.is_finite():
        return NAN if number.is_nan() else number
    positive = int(number.as_tuple().exponent) > 0
    return EXACT.plus(number.quantize(_ONE, context=EXACT) if positive else number)


def scale_of(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)


def checked(number: Decimal) -> Decimal:
    """Within what PostgreSQL holds, and without the sign of a zero."""
    if number.adjusted() >= _WHOLE_DIGITS_MAX and number and number.is_finite():
        raise EvaluationError("value overflows numeric format")
    return EXACT.plus(number)


def order_of(number: Decimal | int) -> tuple[bool, Decimal | int]:
    """Something that orders as PostgreSQL orders numbers."""
    return (True, 0) if number != number else (False, number)


# Rounding


def to_scale(number: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """With so many digits behind the point; fewer than none are zeros before it."""
    if not number.is_finite():
        return number
    scale = max(min(scale, _SCALE_MAX), -_WHOLE_DIGITS_MAX)
    rounded = number.quantize(Decimal((0, (1,), -scale)), rounding=rounding, context=EXACT)
    return checked(rounded if scale >= 0 else rounded.quantize(_ONE, context=EXACT))


def _rounding(way: str) -> Callable[..., Decimal]:
    return lambda number, scale=0: to_scale(number, scale, way)


def modified(kind: str) -> Callable[[Decimal], Decimal]:
    """What `numeric(precision,scale)` makes of a number."""
    found = _TYPMOD.fullmatch(kind)
    assert found is not None
    precision, scale = map(int, found.groups())

    def modify(number: Decimal) -> Decimal:
        rounded = to_scale(number, scale)
        if number.is_infinite() or (rounded and not rounded.is_nan() and rounded.adjusted() >= precision - scale):
            raise EvaluationError("numeric field overflow")
        return rounded

    return modify


# Arithmetic


def _multiplied(a: Decimal, b: Decimal) -> Decimal:
    product = checked(EXACT.multiply(a, b))
    return to_scale(product, _SCALE_MAX) if product.is_finite() and scale_of(product) > _SCALE_MAX else product


def divided(a: Decimal, b: Decimal) -> Decimal:
    if a.is_nan() or b.is_nan():
        return NAN
    if not b:
        raise EvaluationError("division by zero")
    if a.is_infinite():
        return NAN if b.is_infinite() else EXACT.multiply(a, _ONE.copy_sign(b))
    return _ZERO if b.is_infinite() else checked(_quotient(a, b, _quotient_scale(a, b)))


def _quotient(a: Decimal, b: Decimal, scale: int) -> Decimal:
    above, below = abs(_digits(a)), abs(_digits(b))
    shift = scale + scale_of(b) - scale_of(a)
    above, below = (above * 10**shift, below) if shift >= 0 else (above, below * 10**-shift)
    digits = (2 * above + below) // (2 * below)
    return EXACT.scaleb(Decimal(digits).copy_sign(_ONE if (a < 0) == (b < 0) else -_ONE), -scale)


def _digits(number: Decimal) -> int:
    return int(EXACT.scaleb(number, scale_of(number)))


def _quotient_scale(a: Decimal, b: Decimal) -> int:
    """At least sixteen digits that mean something, as PostgreSQL estimates it, and no fewer than either has."""
    (weight, first), (other, divisor) = _weight(a), _weight(b)
    weight -= other + (1 if first <= divisor else 0)
    wanted = max(_QUOTIENT_DIGITS_MIN - weight * _BASE_DIGITS, scale_of(a), scale_of(b), 0)
    return min(wanted, _QUOTIENT_SCALE_MAX)


def _weight(number: Decimal) -> tuple[int, int]:
    """The place of the first digit of ten thousand, counted from the point, and that digit."""
    if not number:
        return 0, 0
    weight = number.adjusted() // _BASE_DIGITS
    shift = number.adjusted() - weight * _BASE_DIGITS
    leading = number.as_tuple().digits[: shift + 1]
    return weight, int("".join(map(str, leading)).ljust(shift + 1, "0"))


def _whole_quotient(a: Decimal, b: Decimal) -> Decimal:
    """Towards zero."""
    if a.is_finite() and b.is_finite() and b:
        return checked(EXACT.divide_int(a, b).quantize(_ONE, context=EXACT))
    return divided(a, b)


def _remainder(a: Decimal, b: Decimal) -> Decimal:
    """With the sign of the dividend."""
    if a.is_nan() or b.is_nan():
        return NAN
    if not b:
        raise EvaluationError("division by zero")
    if a.is_infinite():
        return NAN
    if b.is_infinite():
        return a
    return checked(EXACT.subtract(a, EXACT.multiply(b, _whole_quotient(a, b))))


def _sign(a: Decimal) -> Decimal:
    return NAN if a.is_nan() else Decimal((a > 0) - (a < 0))


def _fewest_digits(a: Decimal) -> int | None:
    if not a.is_finite():
        return None
    return max(-int(a.normalize(EXACT).as_tuple().exponent), 0) if a else 0


def _trimmed(a: Decimal) -> Decimal:
    fewest = _fewest_digits(a)
    return a if fewest is None else to_scale(a, fewest)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: checked(EXACT.add(a, b)),
    "-": lambda a, b: checked(EXACT.subtract(a, b)),
    "*": _multiplied,
    "/": divided,
    "%": _remainder,
    "div": _whole_quotient,
    "neg": EXACT.minus,
    "abs": EXACT.abs,
    "sign": _sign,
    "round": _rounding(ROUND_HALF_UP),
    "trunc": _rounding(ROUND_DOWN),
    "ceil": _rounding(ROUND_CEILING),
    "floor": _rounding(ROUND_FLOOR),
    "trim_scale": _trimmed,
}
STRICT: dict[str, Callable[..., Any]] = {
    "scale": lambda a: scale_of(a) if a.is_finite() else None,
    "min_scale": _fewest_digits,
}


def numeric_operator(sign: str) -> Callable[..., Any]:
    return _OPERATORS[sign]


def numeric_comparison(sign: str) -> Callable[[Any, Any], bool]:
    compare = comparison(sign)

    def compared(a: Decimal | int, b: Decimal | int) -> bool:
        return compare(a, b) if a == a and b == b else compare(order_of(a), order_of(b))

    return compared


# Casts


def written(number: Decimal) -> str:
    return format(number, "f")


def _of_real(real: float) -> Decimal:
    """Fifteen digits: so many every double has."""
    return read(f"{real:.15g}")


def _to_real(number: Decimal) -> float:
    real = float(number)
    if number.is_finite() and (math.isinf(real) or (number and not real)):
        raise EvaluationError(f'"{written(number)}" is out of range for type double precision')
    return real


def _to_integer(kind: str) -> Callable[[Decimal], int]:
    def convert(number: Decimal) -> int:
        if not number.is_finite():
            raise EvaluationError(f"cannot convert {'NaN' if number.is_nan() else 'infinity'} to {TITLES[kind]}")
        return whole(kind, int(to_scale(number, 0)))

    return convert


_FROM: dict[str, Callable[[Any], Decimal]] = {
    **dict.fromkeys(BOUNDS, Decimal),
    "float8": _of_real,
    "float4": lambda real: read(f"{widened(real):.6g}"),
    "text": read,
    "numeric": lambda number: number,
}
_TO: dict[str, Callable[[Decimal], Any]] = {
    **{kind: _to_integer(kind) for kind in BOUNDS},
    "float8": _to_real,
    "text": written,
}


def numeric_cast(kind: str, wanted: str) -> Callable[[Any], Any]:
    return _FROM[kind] if wanted == "numeric" else _TO[wanted]
