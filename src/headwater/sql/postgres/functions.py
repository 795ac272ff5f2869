"""The functions of PostgreSQL whose results we know exactly: what they take, what they give. Values only.

`text!` is text under the collation C: elsewhere letters have their case by rules of the origin's own. What depends on
the machine's mathematics (`sin`, `power`, …) is not here, nor what makes a numeric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """`name` is what evaluates it: one for each way of computing."""

    name: str
    takes: tuple[str, ...]
    gives: str


def _all(name: str, gives: str, *forms: str) -> tuple[Signature, ...]:
    return tuple(Signature(name, tuple(form.split()), gives) for form in forms)


_LENGTH = _all("length", "int4", "text")
_INTEGER_FORMS = tuple(Signature(f"{kind} abs", (kind,), kind) for kind in ("int2", "int4", "int8"))

FUNCTIONS: Mapping[str, tuple[Signature, ...]] = {
    "abs": (*_INTEGER_FORMS, Signature("float8 abs", ("float8",), "float8")),
    "ascii": _all("ascii", "int4", "text"),
    "btrim": _all("btrim", "text", "text", "text text"),
    "ceil": _all("float8 ceil", "float8", "float8"),
    "ceiling": _all("float8 ceil", "float8", "float8"),
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "floor": _all("float8 floor", "float8", "float8"),
    "left": _all("left", "text", "text int4"),
    "length": _LENGTH,
    "lower": _all("lower", "text", "text!"),
    "lpad": _all("lpad", "text", "text int4", "text int4 text"),
    "ltrim": _all("ltrim", "text", "text", "text text"),
    "md5": _all("md5", "text", "text"),
    "mod": tuple(Signature(f"{kind} %", (kind, kind), kind) for kind in ("int2", "int4", "int8")),
    "octet_length": _all("octet_length", "int4", "text"),
    "repeat": _all("repeat", "text", "text int4"),
    "replace": _all("replace", "text", "text text text"),
    "reverse": _all("reverse", "text", "text"),
    "right": _all("right", "text", "text int4"),
    "round": _all("float8 round", "float8", "float8"),
    "rpad": _all("rpad", "text", "text int4", "text int4 text"),
    "rtrim": _all("rtrim", "text", "text", "text text"),
    "sign": _all("float8 sign", "float8", "float8"),
    "split_part": _all("split_part", "text", "text text int4"),
    "sqrt": _all("float8 sqrt", "float8", "float8"),
    "starts_with": _all("starts_with", "bool", "text text"),
    "strpos": _all("strpos", "int4", "text text"),
    "substr": _all("substr", "text", "text int4", "text int4 int4"),
    "substring": _all("substr", "text", "text int4", "text int4 int4"),
    "trim": _all("btrim", "text", "text"),
    "trunc": _all("float8 trunc", "float8", "float8"),
    "upper": _all("upper", "text", "text!"),
}
SPECIAL = ("coalesce", "concat", "greatest", "least", "nullif")
