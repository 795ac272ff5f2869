"""What PostgreSQL's operators and functions make of values that are not NULL, and the errors they raise. Pure.

Texts are compared and cut by code points, as in a database of encoding UTF8 under the collation C. NaN equals itself
and is larger than any other number.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from headwater.dialects.postgres.kernels.float_text import real_text, short_text, widened
from headwater.dialects.postgres.kernels.format_text import WRITTEN
from headwater.dialects.postgres.kernels.parse_text import READ
from headwater.dialects.postgres.kernels.temporal import MOVED
from headwater.dialects.postgres.kernels.texts import joined, lpad, repeat, replace, rpad
from headwater.sql.evaluation import EvaluationError

BOUNDS = {"int2": 1 << 15, "int4": 1 << 31, "int8": 1 << 63}
TITLES = {"int2": "smallint", "int4": "integer", "int8": "bigint"}


# Integers


def whole(kind: str, value: int) -> int:
    if not -BOUNDS[kind] <= value < BOUNDS[kind]:
        raise EvaluationError(f"{TITLES[kind]} out of range")
    return value


def divided(a: int, b: int) -> int:
    """Towards zero."""
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    return a - b * divided(a, b)


_INTEGERS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divided,
    "%": remainder,
    "neg": lambda a: -a,
    "abs": abs,
}


def integer_operator(kind: str, sign: str) -> Callable[..., int]:
    compute = _INTEGERS[sign]
    return lambda *args: whole(kind, compute(*args))


# Doubles


def _overflowed(result: float, *args: float) -> bool:
    return math.isinf(result) and not any(map(math.isinf, args))


def _checked(result: float, overflow: bool, underflow: bool) -> float:
    if overflow or underflow:
        raise EvaluationError(f"value out of range: {'overflow' if overflow else 'underflow'}")
    return result


def _added(a: float, b: float) -> float:
    return _checked(a + b, _overflowed(a + b, a, b), False)


def _subtracted(a: float, b: float) -> float:
    return _checked(a - b, _overflowed(a - b, a, b), False)


def _multiplied(a: float, b: float) -> float:
    result = a * b
    return _checked(result, _overflowed(result, a, b), result == 0 and a != 0 and b != 0)


def _quotient(a: float, b: float) -> float:
    if b == 0 and not math.isnan(a):
        raise EvaluationError("division by zero")
    result = a / b if b != 0 else math.nan
    return _checked(result, math.isinf(result) and not math.isinf(a), result == 0 and a != 0 and not math.isinf(b))


def _root(a: float) -> float:
    if a < 0:
        raise EvaluationError("cannot take square root of a negative number")
    return math.sqrt(a)


def _to_integral(to: Callable[[float], int]) -> Callable[[float], float]:
    def rounded(a: float) -> float:
        return math.copysign(float(to(a)), a) if math.isfinite(a) else a

    return rounded


def _sign(a: float) -> float:
    """Of NaN too it is 0."""
    return 1.0 if a > 0 else -1.0 if a < 0 else 0.0


def order_of(a: float) -> int:
    """A whole number that orders as PostgreSQL orders doubles: -0 is 0, and NaN the largest."""
    if math.isnan(a):
        return (1 << 63) - 1
    (bits,) = struct.unpack(">q", struct.pack(">d", a + 0.0))
    return int(bits if bits >= 0 else -(bits & ((1 << 63) - 1)))


_REALS: dict[str, Callable[..., float]] = {
    "+": _added,
    "-": _subtracted,
    "*": _multiplied,
    "/": _quotient,
    "neg": lambda a: -a,
    "abs": abs,
    "ceil": _to_integral(math.ceil),
    "floor": _to_integral(math.floor),
    "trunc": _to_integral(math.trunc),
    "round": _to_integral(round),
    "sign": _sign,
    "sqrt": _root,
}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def comparison(name: str) -> Callable[[Any, Any], bool]:
    return _COMPARED[name]


def real_operator(sign: str) -> Callable[..., Any]:
    if sign in _COMPARED:
        compare = _COMPARED[sign]
        return lambda a, b: compare(order_of(a), order_of(b))
    return _REALS[sign]


# Casts


def _rounded(kind: str) -> Callable[[float], int]:
    """To the nearest, halves to even."""

    def to_integer(a: float) -> int:
        if not math.isfinite(a):
            raise EvaluationError(f"{TITLES[kind]} out of range")
        return whole(kind, round(a))

    return to_integer


def cast(kind: str, wanted: str) -> Callable[[Any], Any]:
    if wanted == kind:
        return lambda a: a
    if kind == "text" and wanted in READ:
        return READ[wanted]
    if kind == "float4" and wanted != "text":
        convert = cast("float8", wanted)
        return lambda a: convert(widened(a))
    if wanted in BOUNDS:
        if kind == "float8":
            return _rounded(wanted)
        return int if kind == "bool" else lambda a: whole(wanted, a)
    if wanted == "float8":
        return float
    if wanted == "bool":
        return bool
    if (kind, wanted) in MOVED:
        return MOVED[kind, wanted]
    return _WRITERS.get(kind, str)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "bool": lambda a: "true" if a else "false",
    "float8": real_text,
    "float4": short_text,
    "bpchar": lambda a: a.rstrip(" "),
    "bytea": lambda raw: f"\\x{raw.hex()}",
    **WRITTEN,
}


# Texts


def _substr(text: str, start: int, length: int | None = None) -> str:
    if length is not None and length < 0:
        raise EvaluationError("negative substring length not allowed")
    end = len(text) if length is None else start - 1 + length
    return text[max(start - 1, 0) : max(end, 0)]


def _right(text: str, count: int) -> str:
    """The smallest integer has no negative of its own: there PostgreSQL gives all."""
    return "" if count == 0 else text if count == -BOUNDS["int4"] else text[-count:]


def _split_part(text: str, by: str, place: int) -> str:
    if place == 0:
        raise EvaluationError("field position must not be zero")
    if not text:
        return ""
    parts = text.split(by) if by else [text]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) else ""


def _lower(text: str) -> str:
    return text.encode().lower().decode()


def _upper(text: str) -> str:
    return text.encode().upper().decode()


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """As a regular expression over code points. What stands between two % is taken where it is found first, for good:
    the time grows with the text, however many there are."""
    parts, rest = [""], iter(pattern)
    for character in rest:
        if character == escape:
            parts[-1] += re.escape(_escaped(rest))
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += "." if character == "_" else re.escape(character)
    first, *others = parts
    between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    return re.compile(first + between + (".*" + others[-1] if others else ""), re.DOTALL)


def _escaped(rest: Iterator[str]) -> str:
    """PostgreSQL says so only of texts that match as far as that."""
    following = next(rest, None)
    if following is None:
        raise EvaluationError("LIKE pattern must not end with escape character")
    return following


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    return _pattern(pattern, escape).fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    """Both made small, and the escape is looked for afterwards."""
    return _pattern(_lower(pattern), _lower(escape)).fullmatch(_lower(text)) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str, folded: bool) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | re.ASCII | (re.IGNORECASE if folded else re.RegexFlag(0)))


def _chr(number: int) -> str:
    if number < 0:
        raise EvaluationError("character number must be positive")
    if number == 0:
        raise EvaluationError("null character not permitted")
    if number > 0x10FFFF:
        raise EvaluationError(f"requested character too large for encoding: {number}")
    if 0xD800 <= number < 0xE000:
        raise EvaluationError(f"requested character not valid for encoding: {number}")
    return chr(number)


def _translate(text: str, old: str, new: str) -> str:
    """The first of several that are alike counts; those with no counterpart go."""
    table = {ord(one): new[place] if place < len(new) else None for place, one in reversed(list(enumerate(old)))}
    return text.translate(table)


def _initcap(text: str) -> str:
    """Words are of letters and digits, those of ASCII."""
    return re.sub("[A-Za-z0-9]+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


STRICT: dict[str, Callable[..., Any]] = {
    "text ||": lambda a, b: joined((a, b)),
    "like": _like,
    "ilike": _ilike,
    "lower": _lower,
    "upper": _upper,
    "length": len,
    "octet_length": lambda text: len(text.encode()),
    "bool matches": lambda text, pattern: _compiled(pattern, False).search(text) is not None,
    "bool matches folded": lambda text, pattern: _compiled(pattern, True).search(text) is not None,
    "bit_length": lambda text: 8 * len(text.encode()),
    "chr": _chr,
    "initcap": _initcap,
    "translate": _translate,
    "ascii": lambda text: ord(text[0]) if text else 0,
    "int4 octets": len,
    "text md5": lambda raw: hashlib.md5(raw, usedforsecurity=False).hexdigest(),
    "md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
    "btrim": lambda text, characters=" ": text.strip(characters) if characters else text,
    "ltrim": lambda text, characters=" ": text.lstrip(characters) if characters else text,
    "rtrim": lambda text, characters=" ": text.rstrip(characters) if characters else text,
    "left": lambda text, count: text[:count],
    "right": _right,
    "lpad": lpad,
    "rpad": rpad,
    "repeat": repeat,
    "replace": replace,
    "reverse": lambda text: text[::-1],
    "split_part": _split_part,
    "starts_with": str.startswith,
    "strpos": lambda text, part: text.find(part) + 1,
    "substr": _substr,
}
