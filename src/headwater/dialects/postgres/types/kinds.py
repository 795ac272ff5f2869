"""Which kind a column of PostgreSQL, a constant or an expression is of. Pure.

A column and a cast carry their kind; of the rest it follows from how they are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

from headwater.dialects.postgres.types import kind as kinds
from headwater.dialects.postgres.types.bpchar import is_padded, kind_of_padded
from headwater.dialects.postgres.types.kind import (
    BOOL,
    DEFAULT,
    FLOAT8,
    INT4,
    INT8,
    INTEGERS,
    NUMERIC,
    PLAIN,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    PostgresKind,
    element_of,
    is_array,
    is_element,
    is_enum,
    is_integer,
    is_text,
    kind_of_type,
)
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

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "is", "isnot"})
TRUTHS = COMPARISONS | {"and", "or", "not", "in", "like", "ilike", "starts_with"}
BOOLEAN = Type.BOOLEAN
TYPES = {
    **{kind.base: Type.INTEGER for kind in INTEGERS},
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
    **{title: PostgresKind(base) for base, title in TITLES.items()},
    **{
        kind.base: kind
        for kind in (
            *INTEGERS,
            FLOAT8,
            BOOL,
            TEXT,
            kinds.UUID,
            kinds.BYTEA,
            *kinds.MOMENTS,
            kinds.INTERVAL,
            kinds.JSON,
            kinds.JSONB,
        )
    },
    "int": INT4,
    "varchar": TEXT,
    "character varying": TEXT,
    "time without time zone": kinds.TIME,
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ,
}
_C = ("C", "POSIX")
_UNCOLLATED = ("xml", '"char"', "")  # texts without a collation that are no enum
_VARCHAR = re.compile(r"character varying(\(\d+\))?|text")
_PRECISION = re.compile(
    r"(?<=^time)\(\d\)|(?<=^timestamp)\(\d\)|(?<=^interval)[ (].*"
)  # it tells what a column rounds to


def kind_of_column(column: Column) -> PostgresKind:
    if _VARCHAR.fullmatch(column.declared) and column.type is Type.TEXT:
        return _kind_of_text(column)
    if (padded := kind_of_padded(column.declared, _kind_of_text(column))) and column.collation != "nondeterministic":
        return padded
    if column.type is Type.NUMERIC:
        return kind_of_declared(column.declared) or _other(column)
    if column.type is Type.TEXT and column.collation == "BINARY" and column.declared not in _UNCOLLATED:
        return PostgresKind("enum", declared=column.declared)
    if (element := column.declared.removesuffix("[]")) != column.declared:
        return _kind_of_array(column, element)
    kind = SPELLINGS.get(_PRECISION.sub("", column.declared))
    return kind if kind and column.type in (TYPES[kind.base], Type.INTEGER) else _other(column)


def _other(column: Column) -> PostgresKind:
    return PostgresKind("other", declared=column.declared)


def _kind_of_array(column: Column, declared: str) -> PostgresKind:
    """Of elements of which equal ones look the same; arrays of others are passed on."""
    if _VARCHAR.fullmatch(declared):
        element = _kind_of_text(column)
    else:
        element = SPELLINGS.get(_PRECISION.sub("", declared), UNKNOWN)
    return PostgresKind("array", element=element) if is_element(element) else _other(column)


def _kind_of_text(column: Column) -> PostgresKind:
    if column.collation == "nondeterministic":
        return _other(column)
    return TEXT if column.collation in _C else PostgresKind("text", collation=column.collation)


def type_of_kind(kind: PostgresKind) -> Type:
    return TYPES[kind.base]


def kind_of(expr: Expr) -> PostgresKind:
    match expr:
        case ColumnRef() | Cast():
            return kind_of_type(expr.sql_type)
        case Const():
            return _kind_of_const(expr)
        case Case():
            return common_kind([*(then for _, then in expr.whens), expr.default]) or UNKNOWN
        case Call():
            return _kind_of_call(expr)


def _kind_of_const(expr: Const) -> PostgresKind:
    match expr.value:
        case None:
            return UNKNOWN if expr.type is None else PostgresKind(next(k for k, t in TYPES.items() if t is expr.type))
        case bool():
            return BOOL
        case int():
            return INT4 if fits(expr.value, INT4) else INT8
        case float():
            return FLOAT8
        case Decimal():
            return NUMERIC
        case _:
            return _kind_of_value(expr.value)


def _kind_of_value(value: Value) -> PostgresKind:
    match value:
        case datetime():
            return TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
        case Verbatim():
            return PostgresKind(value.type)
        case _:
            return _KINDS.get(type(value), TEXT)


_KINDS: dict[type, PostgresKind] = {
    UUID: kinds.UUID,
    bytes: kinds.BYTEA,
    date: kinds.DATE,
    time: kinds.TIME,
    Interval: kinds.INTERVAL,
    tuple: PostgresKind("array"),
}


def _kind_of_call(expr: Call) -> PostgresKind:
    base, _, operator = expr.name.partition(" ")
    if expr.name in TRUTHS or operator in TRUTHS:
        return BOOL
    if expr.name in ("coalesce", "nullif", "greatest", "least"):
        return common_kind(expr.args[:1] if expr.name == "nullif" else expr.args) or UNKNOWN
    if expr.type is Type.TEXT:
        return _kind_of_made(expr.args)
    if expr.type is Type.NUMERIC and base == NUMERIC.base:
        return kind_of_result(operator, [kind_of(arg) for arg in expr.args], expr.args)
    if operator:
        return PostgresKind(base)
    if expr.type is Type.NUMERIC:
        return kind_of_declared(expr.name) or NUMERIC
    return FLOAT8 if expr.type is Type.REAL else INT4


def _kind_of_made(args: Iterable[Expr]) -> PostgresKind:
    """A text has its collation from the texts it is made of; those that are not of a column leave it to the others."""
    found = {kind for arg in args if not isinstance(arg, Const) and is_text(kind := kind_of(arg))} - {DEFAULT}
    return DEFAULT if not found else found.pop() if len(found) == 1 else PostgresKind("text", collation="conflict")


def fits(value: int, kind: PostgresKind) -> bool:
    return -BOUNDS[kind.base] <= value < BOUNDS[kind.base]


def wider(integers: Iterable[PostgresKind]) -> PostgresKind:
    return max(integers, key=INTEGERS.index)


def is_plain(kind: PostgresKind) -> bool:
    """Text of another collation too, but for its order."""
    return (
        kind in PLAIN or is_text(kind) or has_scale(kind) or is_enum(kind) or is_padded(kind) or _is_plain_array(kind)
    )


def _is_plain_array(kind: PostgresKind) -> bool:
    return is_array(kind) and is_element(element_of(kind))


def common_kind(exprs: Iterable[Expr]) -> PostgresKind | None:
    """Of branches that were made alike: integers may differ in width. None where there is none."""
    found = {kind for expr in exprs if (kind := kind_of(expr)) != UNKNOWN}
    if len(found) == 1:
        return found.pop()
    if found and all(map(is_integer, found)):
        return wider(found)
    if found and all(map(is_numeric, found)):
        return common_scale(found)
    if found and all(map(is_text, found)):
        collated = found - {TEXT}
        return collated.pop() if len(collated) == 1 else None
    return None
