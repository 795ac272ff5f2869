"""SQLite's static rules: affinity of declared types, result types of operators, which column is the rowid.

Decides from types alone; never evaluates. `Type.ANY` is the honest answer wherever only the row tells.
"""

from __future__ import annotations

from enum import StrEnum

from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sql.ir.expr import Cast, ColumnRef, Expr
from headwater.sql.ir.sql_type import SqlType


class Affinity(StrEnum):
    """NONE is that of a column that was computed in a relation."""

    INTEGER = "INTEGER"
    REAL = "REAL"
    NUMERIC = "NUMERIC"
    TEXT = "TEXT"
    BLOB = "BLOB"
    NONE = ""

    @property
    def dialect(self) -> str:
        return "sqlite"


NUMERIC_AFFINITIES = frozenset({Affinity.INTEGER, Affinity.REAL, Affinity.NUMERIC})
ROWID_NAMES = frozenset({"rowid", "_rowid_", "oid"})
_NUMBERS = (Type.INTEGER, Type.REAL)
_CAST_TYPES = {
    Affinity.INTEGER: Type.INTEGER,
    Affinity.REAL: Type.REAL,
    Affinity.TEXT: Type.TEXT,
    Affinity.BLOB: Type.BLOB,
}


def declared_affinity(declared: str) -> Affinity:
    """The affinity of a declared type, by the words in it (https://sqlite.org/datatype3.html, 3.1)."""
    word = declared.upper()
    if "INT" in word:
        return Affinity.INTEGER
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
        return Affinity.TEXT
    if not word or "BLOB" in word:
        return Affinity.BLOB
    real = any(part in word for part in ("REAL", "FLOA", "DOUB"))
    return Affinity.REAL if real else Affinity.NUMERIC


def computed_affinity(type: Type | None) -> Affinity:
    """Of a computed column."""
    return Affinity.BLOB if type in (Type.TEXT, Type.BLOB) else Affinity.NONE


def rowid_column(table: Table) -> Column | None:
    """The INTEGER PRIMARY KEY, which is the rowid by another name; None where there is none."""
    if len(table.key) != 1:
        return None
    column = table.column(table.key[0])
    return column if column.declared.upper() == "INTEGER" else None


def affinity_of_type(sql_type: SqlType | None) -> Affinity:
    """Of a column or a cast, by what it carries. BLOB is an affinity too, if one that converts nothing."""
    return sql_type if isinstance(sql_type, Affinity) else Affinity.BLOB


def affinity(expr: Expr) -> Affinity | None:
    """Only columns and casts have one. A column that was computed in a relation has none."""
    return (affinity_of_type(expr.sql_type) or None) if isinstance(expr, ColumnRef | Cast) else None


def comparison_affinity(left: Affinity | None, right: Affinity | None) -> Affinity | None:
    """What is applied to both operands before they are compared (datatype3.html, 4.2)."""
    if left is not None and right is not None:
        return Affinity.NUMERIC if NUMERIC_AFFINITIES & {left, right} else None
    return left or right


def arithmetic_type(left: Type | None, right: Type | None) -> Type | None:
    """Of + - * / %. An overflow turns INTEGER into REAL: that is the evaluator's to notice."""
    if left is None or right is None:
        return None
    if left not in _NUMBERS or right not in _NUMBERS:
        return Type.ANY
    return Type.INTEGER if left is right is Type.INTEGER else Type.REAL


def negation_type(operand: Type | None) -> Type | None:
    return operand if operand is None or operand in _NUMBERS else Type.ANY


def cast_type(operand: Type | None, affinity: Affinity) -> Type | None:
    """CAST AS NUMERIC leaves numbers as they are; of the rest only the row tells."""
    if operand is None:
        return None
    return _CAST_TYPES.get(affinity) or (operand if operand in _NUMBERS else Type.ANY)
