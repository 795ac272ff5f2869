"""PostgreSQL's types as the binder tells them apart, and which of them an expression is of. Pure.

A *kind* is a type by its short name: bool, int2, int4, int8, float8, text, uuid, date and their like. `text collate
en_US` is text that is equal where its bytes are, and ordered as only the origin knows. `unknown` is a literal or
parameter that takes the type of what it meets, `numeric 2` a number with two digits behind the point (see `numbers`),
`array int4` an array of integers.
`other …` is what we pass on and do not compute with. A column and a cast carry their kind where SQLite's carry an
affinity; of the rest it follows from how they are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

from headwater.dialects.postgres.types.bpchar import is_padded, kind_of_padded
from headwater.dialects.postgres.types.numeric import (
    common_scale,
    has_scale,
    is_numeric,
    kind_of_declared,
    kind_of_result,
)
from headwater.model.schema import Column
from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value
from headwater.model.verbatim import Verbatim
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr

INTEGERS = ("int2", "int4", "int8")
REALS = ("float4", "float8")
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "is", "isnot"})
TRUTHS = COMPARISONS | {"and", "or", "not", "in", "like", "ilike", "starts_with"}
BOOLEAN = Type.BOOLEAN
MOMENTS = ("date", "time", "timestamp", "timestamptz")
TYPES = {
    **dict.fromkeys(INTEGERS, Type.INTEGER),
    "bool": BOOLEAN,
    "float8": Type.REAL,
    "float4": Type.REAL,
    "text": Type.TEXT,
    "unknown": Type.TEXT,
    "numeric": Type.NUMERIC,
    "uuid": Type.UUID,
    "date": Type.DATE,
    "time": Type.TIME,
    "timestamp": Type.TIMESTAMP,
    "timestamptz": Type.TIMESTAMPTZ,
    "interval": Type.INTERVAL,
    "bytea": Type.BLOB,
    "enum": Type.TEXT,
    "jsonb": Type.JSON,
    "json": Type.JSON,
    "bpchar": Type.TEXT,
    "array": Type.OTHER,
}
PLAIN = frozenset(
    {*INTEGERS, "bool", "text", "uuid", "bytea", *MOMENTS}
)  # equal values look the same, and we know their order
BOUNDS = {"int2": 1 << 15, "int4": 1 << 31, "int8": 1 << 63}
TITLES = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float8": "double precision",
    "float4": "real",
    "bool": "boolean",
}
SPELLINGS = {
    **{title: kind for kind, title in TITLES.items()},
    **{
        kind: kind
        for kind in (*INTEGERS, "float8", "bool", "text", "uuid", "bytea", *MOMENTS, "interval", "json", "jsonb")
    },
    "int": "int4",
    "varchar": "text",
    "character varying": "text",
    "time without time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}
DEFAULT = "text collate default"  # the database's own collation, whichever that is
_C = ("C", "POSIX")
_UNCOLLATED = ("xml", '"char"', "")  # texts without a collation that are no enum
_VARCHAR = re.compile(r"character varying(\(\d+\))?|text")
_PRECISION = re.compile(
    r"(?<=^time)\(\d\)|(?<=^timestamp)\(\d\)|(?<=^interval)[ (].*"
)  # it tells what a column rounds to


def kind_of_column(column: Column) -> str:
    if _VARCHAR.fullmatch(column.declared) and column.type is Type.TEXT:
        return _kind_of_text(column)
    if (padded := kind_of_padded(column.declared, _kind_of_text(column))) and column.collation != "nondeterministic":
        return padded
    if column.type is Type.NUMERIC:
        return kind_of_declared(column.declared) or f"other {column.declared}"
    if column.type is Type.TEXT and column.collation == "BINARY" and column.declared not in _UNCOLLATED:
        return f"enum {column.declared}"
    if (element := column.declared.removesuffix("[]")) != column.declared:
        return _kind_of_array(column, element)
    kind = SPELLINGS.get(_PRECISION.sub("", column.declared))
    return kind if kind and column.type in (TYPES[kind], Type.INTEGER) else f"other {column.declared}"


def _kind_of_array(column: Column, declared: str) -> str:
    """Of elements of which equal ones look the same; arrays of others are passed on."""
    if _VARCHAR.fullmatch(declared):
        element = _kind_of_text(column)
    else:
        element = SPELLINGS.get(_PRECISION.sub("", declared), "")
    return f"array {element}" if is_element(element) else f"other {column.declared}"


def is_element(kind: str) -> bool:
    return kind in PLAIN or is_text(kind)


def is_array(kind: str) -> bool:
    return kind.startswith("array ")


def element_of(kind: str) -> str:
    return kind.removeprefix("array ")


def _kind_of_text(column: Column) -> str:
    if column.collation == "nondeterministic":
        return f"other {column.declared}"
    return "text" if column.collation in _C else f"text collate {column.collation}"


def type_of_kind(kind: str) -> Type:
    return TYPES[kind.partition(" ")[0]]


def kind_of(expr: Expr) -> str:
    match expr:
        case ColumnRef() | Cast():
            return expr.affinity
        case Const():
            return _kind_of_const(expr)
        case Case():
            return common_kind([*(then for _, then in expr.whens), expr.default]) or "unknown"
        case Call():
            return _kind_of_call(expr)


def _kind_of_const(expr: Const) -> str:
    match expr.value:
        case None:
            return "unknown" if expr.type is None else next(k for k, t in TYPES.items() if t is expr.type)
        case bool():
            return "bool"
        case int():
            return "int4" if fits(expr.value, "int4") else "int8"
        case float():
            return "float8"
        case Decimal():
            return "numeric"
        case _:
            return _kind_of_value(expr.value)


def _kind_of_value(value: Value) -> str:
    match value:
        case datetime():
            return "timestamp" if value.tzinfo is None else "timestamptz"
        case Verbatim():
            return value.type
        case _:
            return _KINDS.get(type(value), "text")


_KINDS: dict[type, str] = {
    UUID: "uuid",
    bytes: "bytea",
    date: "date",
    time: "time",
    Interval: "interval",
    tuple: "array",
}


def _kind_of_call(expr: Call) -> str:
    kind, _, operator = expr.name.partition(" ")
    if expr.name in TRUTHS or operator in TRUTHS:
        return "bool"
    if expr.name in ("coalesce", "nullif", "greatest", "least"):
        return common_kind(expr.args[:1] if expr.name == "nullif" else expr.args) or "unknown"
    if expr.type is Type.TEXT:
        return _kind_of_made(expr.args)
    if expr.type is Type.NUMERIC and kind == "numeric":
        return kind_of_result(operator, [kind_of(arg) for arg in expr.args], expr.args)
    if operator:
        return kind
    if expr.type is Type.NUMERIC:
        return kind_of_declared(expr.name) or "numeric"
    return "float8" if expr.type is Type.REAL else "int4"


def _kind_of_made(args: Iterable[Expr]) -> str:
    """A text has its collation from the texts it is made of; those that are not of a column leave it to the others."""
    kinds = {kind for arg in args if not isinstance(arg, Const) and is_text(kind := kind_of(arg))} - {DEFAULT}
    return DEFAULT if not kinds else kinds.pop() if len(kinds) == 1 else "text collate conflict"


def fits(value: int, kind: str) -> bool:
    return -BOUNDS[kind] <= value < BOUNDS[kind]


def wider(kinds: Iterable[str]) -> str:
    return max(kinds, key=INTEGERS.index)


def is_integer(kind: str) -> bool:
    return kind in INTEGERS


def is_text(kind: str) -> bool:
    return kind.partition(" ")[0] == "text"


def is_plain(kind: str) -> bool:
    """Text of another collation too, but for its order."""
    return (
        kind in PLAIN or is_text(kind) or has_scale(kind) or is_enum(kind) or is_padded(kind) or _is_plain_array(kind)
    )


def _is_plain_array(kind: str) -> bool:
    return is_array(kind) and is_element(element_of(kind))


def is_enum(kind: str) -> bool:
    """Its values are texts whose order only the origin knows."""
    return kind.startswith("enum ")


def common_kind(exprs: Iterable[Expr]) -> str | None:
    """Of branches that were made alike: integers may differ in width. None where there is none."""
    kinds = {kind for expr in exprs if (kind := kind_of(expr)) != "unknown"}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds and all(map(is_integer, kinds)):
        return wider(kinds)
    if kinds and all(map(is_numeric, kinds)):
        return common_scale([*kinds])
    if kinds and all(map(is_text, kinds)):
        collated = kinds - {"text"}
        return collated.pop() if len(collated) == 1 else None
    return None
