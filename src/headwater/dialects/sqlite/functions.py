"""The scalar functions we know: arity and result type. Only deterministic ones, and only those the local SQLite has.

The rest is here by name, so that a refusal can say why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from headwater.dialects.sqlite.affinity import negation_type
from headwater.model.value import Type
from headwater.sql.ir.common_type import common_type
from headwater.sql.syntax.suggestions import words

Types = tuple[Type | None, ...]
_ANY_NUMBER = 1000  # SQLite's own default limit is 127 or 1000; its word is final


@dataclass(frozen=True, slots=True)
class Function:
    """`least` to `most` arguments. `collates`: it compares its arguments."""

    name: str
    least: int
    most: int
    type: Callable[[Types], Type | None]
    collates: bool = False

    @property
    def arity(self) -> str:
        if self.least == self.most:
            return f"{self.least} argument{'s' if self.least != 1 else ''}"
        return (
            f"{self.least} or more arguments" if self.most == _ANY_NUMBER else f"{self.least} to {self.most} arguments"
        )


def _always(type: Type) -> Callable[[Types], Type | None]:
    return lambda _: type


def _first(types: Types) -> Type | None:
    return types[0]


def _magnitude(types: Types) -> Type | None:
    return types[0] if types[0] in (None, Type.INTEGER, Type.ANY) else Type.REAL


def _whole(types: Types) -> Type | None:
    return negation_type(types[0])


def _part(types: Types) -> Type | None:
    return types[0] if types[0] in (Type.BLOB, Type.ANY) else Type.TEXT


def _replaced(types: Types) -> Type | None:
    """An empty pattern gives back the first argument as it is, of whatever type."""
    return Type.TEXT if types[0] in (Type.TEXT, None) else Type.ANY


_INTEGER, _REAL, _TEXT = _always(Type.INTEGER), _always(Type.REAL), _always(Type.TEXT)

KNOWN = (
    *(Function(name, 1, 1, _TEXT) for name in ("lower", "upper", "hex", "quote", "typeof", "soundex")),
    *(Function(name, 1, 1, _INTEGER) for name in ("length", "octet_length", "unicode", "sign")),
    *(Function(name, 1, 2, _TEXT) for name in ("trim", "ltrim", "rtrim")),
    *(Function(name, 2, 3, _part) for name in ("substr", "substring")),
    *(Function(name, 0, _ANY_NUMBER, _TEXT) for name in ("printf", "format", "char")),
    Function("concat", 1, _ANY_NUMBER, _TEXT),
    Function("concat_ws", 2, _ANY_NUMBER, _TEXT),
    Function("replace", 3, 3, _replaced),
    Function("instr", 2, 2, _INTEGER),
    Function("zeroblob", 1, 1, _always(Type.BLOB)),
    Function("abs", 1, 1, _magnitude),
    Function("round", 1, 2, _REAL),
    *(Function(name, 2, _ANY_NUMBER, common_type, collates=True) for name in ("min", "max")),
    Function("nullif", 2, 2, _first, collates=True),
    Function("coalesce", 2, _ANY_NUMBER, common_type),
    Function("ifnull", 2, 2, common_type),
    Function("iif", 3, 3, common_type),
    Function("like", 2, 3, _INTEGER),
    Function("glob", 2, 2, _INTEGER),
    *(Function(name, 1, 1, _first) for name in ("likely", "unlikely")),
    *(Function(name, 1, 1, _whole) for name in ("ceil", "ceiling", "floor", "trunc")),
    *(Function(name, 1, 1, _REAL) for name in ("sqrt", "exp", "ln", "log10", "log2", "degrees", "radians")),
    *(Function(name, 2, 2, _REAL) for name in ("pow", "power", "mod", "atan2")),
    *(Function(name, 1, 1, _REAL) for name in ("sin", "cos", "tan", "asin", "acos", "atan")),
    Function("log", 1, 2, _REAL),
    Function("pi", 0, 0, _REAL),
)

AGGREGATES = words(
    """array_agg avg bool_and bool_or count every group_concat json_group_array json_group_object max median min
    percentile string_agg sum total"""
)
WINDOWS = words("row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value")
FORMATS = words("printf format")
CLOCKS = words("current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch")
VOLATILE = CLOCKS | words("changes last_insert_rowid load_extension random randomblob total_changes")


@cache
def available() -> frozenset[str]:
    """Every function the local SQLite has, known to us or not."""
    with closing(sqlite3.connect(":memory:")) as memory:
        return frozenset(row[0].lower() for row in memory.execute("PRAGMA function_list"))


@cache
def known() -> dict[str, Function]:
    return {function.name: function for function in KNOWN if function.name in available()}
