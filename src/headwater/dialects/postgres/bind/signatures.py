"""The functions of PostgreSQL whose results we know exactly: what they take, what they give. Values only.

`text!` is text under the collation C: elsewhere letters have their case by rules of the source's own. What depends on
the machine's mathematics (`sin`, `power`, …) is not here. A kind of `UNITS` is a constant: one of these words. So is a
`format` of moments, where we know what it means.
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


_CLOCK_UNITS = frozenset({"hour", "minute", "second", "milliseconds", "microseconds"})
_DAY_UNITS = frozenset({"year", "month", "day", "week", "quarter", "decade", "century", "millennium"})
UNITS: Mapping[str, frozenset[str]] = {
    "part of a moment": _CLOCK_UNITS | _DAY_UNITS | {"dow", "isodow", "doy", "isoyear", "epoch"},
    "part of a time": _CLOCK_UNITS | {"epoch"},
    "part of an interval": _CLOCK_UNITS | {"year", "month", "day", "epoch"},
    "part of a day": _DAY_UNITS | {"dow", "isodow", "doy", "isoyear", "epoch"},
    "unit": _CLOCK_UNITS | _DAY_UNITS,
}
_PARTS = (
    *(("part of a moment", kind) for kind in ("date", "timestamp", "timestamptz")),
    ("part of a time", "time"),
    ("part of an interval", "interval"),
)


def _numeric(sign: str, *forms: str) -> tuple[Signature, ...]:
    return _all(f"numeric {sign}", "numeric", *(forms or ("numeric",)))


_LENGTH = _all("length", "int4", "text")
_OCTETS = Signature("int4 octets", ("bytea",), "int4")
_INTEGER_FORMS = tuple(Signature(f"{kind} abs", (kind,), kind) for kind in ("int2", "int4", "int8"))

FUNCTIONS: Mapping[str, tuple[Signature, ...]] = {
    "abs": (*_INTEGER_FORMS, Signature("float8 abs", ("float8",), "float8"), *_numeric("abs")),
    "age": tuple(Signature("interval age", (kind, kind), "interval") for kind in ("timestamp", "timestamptz")),
    "array_length": (Signature("int4 array_length", ("array", "int4"), "int4"),),
    "array_to_string": (Signature("array_to_string", ("array text", "text"), "text"),),
    "ascii": _all("ascii", "int4", "text"),
    "bit_length": _all("bit_length", "int4", "text"),
    "btrim": _all("btrim", "text", "text", "text text"),
    "cardinality": (Signature("int4 cardinality", ("array",), "int4"),),
    "ceil": (*_all("float8 ceil", "float8", "float8"), *_numeric("ceil")),
    "ceiling": (*_all("float8 ceil", "float8", "float8"), *_numeric("ceil")),
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "chr": _all("chr", "text", "int4"),
    "date_part": tuple(Signature(f"float8 date_part {kind}", (part, kind), "float8") for part, kind in _PARTS),
    "date_trunc": tuple(Signature(f"{kind} date_trunc", ("unit", kind), kind) for kind in ("timestamp", "timestamptz")),
    "div": _numeric("div", "numeric numeric"),
    "floor": (*_all("float8 floor", "float8", "float8"), *_numeric("floor")),
    "initcap": _all("initcap", "text", "text!"),
    "isfinite": tuple(
        Signature(f"bool isfinite {kind}", (kind,), "bool") for kind in ("date", "timestamp", "timestamptz")
    ),
    "json_array_length": (Signature("int4 json_array_length", ("json",), "int4"),),
    "json_typeof": (Signature("text json_typeof", ("json",), "text"),),
    "jsonb_array_length": (Signature("int4 jsonb_array_length", ("jsonb",), "int4"),),
    "jsonb_typeof": (Signature("text jsonb_typeof", ("jsonb",), "text"),),
    "left": _all("left", "text", "text int4"),
    "length": (*_LENGTH, _OCTETS),
    "lower": _all("lower", "text", "text!"),
    "lpad": _all("lpad", "text", "text int4", "text int4 text"),
    "ltrim": _all("ltrim", "text", "text", "text text"),
    "make_date": (Signature("date make_date", ("int4", "int4", "int4"), "date"),),
    "md5": (*_all("md5", "text", "text"), Signature("text md5", ("bytea",), "text")),
    "min_scale": _all("min_scale", "int4", "numeric"),
    "mod": (
        *(Signature(f"{kind} %", (kind, kind), kind) for kind in ("int2", "int4", "int8")),
        *_numeric("%", "numeric numeric"),
    ),
    "octet_length": (*_all("octet_length", "int4", "text"), _OCTETS),
    "repeat": _all("repeat", "text", "text int4"),
    "replace": _all("replace", "text", "text text text"),
    "reverse": _all("reverse", "text", "text"),
    "right": _all("right", "text", "text int4"),
    "round": (*_all("float8 round", "float8", "float8"), *_numeric("round", "numeric", "numeric int4")),
    "rpad": _all("rpad", "text", "text int4", "text int4 text"),
    "rtrim": _all("rtrim", "text", "text", "text text"),
    "scale": _all("scale", "int4", "numeric"),
    "sign": (*_all("float8 sign", "float8", "float8"), *_numeric("sign")),
    "split_part": _all("split_part", "text", "text text int4"),
    "sqrt": _all("float8 sqrt", "float8", "float8"),
    "starts_with": _all("starts_with", "bool", "text text"),
    "strpos": _all("strpos", "int4", "text text"),
    "substr": _all("substr", "text", "text int4", "text int4 int4"),
    "substring": _all("substr", "text", "text int4", "text int4 int4"),
    "to_char": tuple(Signature("text to_char", (kind, "format"), "text") for kind in ("timestamp", "timestamptz")),
    "translate": _all("translate", "text", "text text text"),
    "trim": _all("btrim", "text", "text"),
    "trim_scale": _numeric("trim_scale"),
    "trunc": (*_all("float8 trunc", "float8", "float8"), *_numeric("trunc", "numeric", "numeric int4")),
    "upper": _all("upper", "text", "text!"),
}
SPECIAL = ("coalesce", "concat", "concat_ws", "greatest", "least", "nullif")
