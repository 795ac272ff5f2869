"""How PostgreSQL writes a double: the shortest digits that stand for it and for no other. Pure.

A `real` is held as the double that its digits stand for: what it is itself, `widened` tells.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

_PLAIN_MIN, _PLAIN_MAX, _PLAIN_MAX_SHORT = -4, 15, 6  # exponents outside are written
_DIGITS_MAX = 17


def widened(real: float) -> float:
    """The double that a `real` equals."""
    (wide,) = struct.unpack("f", struct.pack("f", real))
    return float(wide)


def short_text(real: float) -> str:
    """Of a `real`."""
    return real_text(real, _PLAIN_MAX_SHORT)


def real_text(real: float, plain_max: int = _PLAIN_MAX) -> str:
    if math.isnan(real):
        return "NaN"
    if math.isinf(real):
        return "Infinity" if real > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, real) < 0 else ""
    return sign + (_spelled(abs(real), plain_max) if real else "0")


def _spelled(real: float, plain_max: int) -> str:
    number = _shortest(real)
    digits, exponent = "".join(map(str, number.as_tuple().digits)).rstrip("0"), number.adjusted()
    if not _PLAIN_MIN <= exponent < plain_max:
        point = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, rest = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{rest}" if rest else whole


def _shortest(real: float) -> Decimal:
    """Python's own, unless that is as near to a neighbour: PostgreSQL does not lean on how halves are rounded."""
    number = Decimal(repr(real))
    digits = len(number.as_tuple().digits)
    while _halfway(number, real) and digits < _DIGITS_MAX:
        digits += 1
        number = Decimal(f"{real:.{digits - 1}e}")
    return number


def _halfway(number: Decimal, real: float) -> bool:
    written, exact = Fraction(number), Fraction(real)
    other = math.nextafter(real, math.inf if written > exact else 0.0)
    return math.isfinite(other) and 2 * written == exact + Fraction(other)
