"""SQLite's static rules: affinity of declared types, result types of operators, which collation a comparison uses.

Decides from types alone; never evaluates. `Type.ANY` is the honest answer wherever only the row tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sql.ir.expr import Cast, ColumnRef, Expr

NUMERIC_AFFINITIES = frozenset({"INTEGER", "REAL", "NUMERIC"})
COLLATIONS = ("BINARY", "NOCASE")
ROWID_NAMES = frozenset({"rowid", "_rowid_", "oid"})
_NUMBERS = (Type.INTEGER, Type.REAL)
_CAST_TYPES = {"INTEGER": Type.INTEGER, "REAL": Type.REAL, "TEXT": Type.TEXT, "BLOB": Type.BLOB}


def declared_affinity(declared: str) -> str:
    """The affinity of a declared type, by the words in it (https://sqlite.org/datatype3.html, 3.1)."""
    word = declared.upper()
    if "INT" in word:
        return "INTEGER"
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not word or "BLOB" in word:
        return "BLOB"
    return "REAL" if any(part in word for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def column_ref(column: Column) -> ColumnRef:
    return ColumnRef(column.name, column.type, declared_affinity(column.declared), column.collation.upper())


def rowid_column(table: Table) -> Column | None:
    """The INTEGER PRIMARY KEY, which is the rowid by another name; None where there is none."""
    if len(table.key) != 1:
        return None
    column = table.column(table.key[0])
    return column if column.declared.upper() == "INTEGER" else None


def affinity(expr: Expr) -> str | None:
    """Only columns and casts have one; BLOB is an affinity too, if one that converts nothing.

    A column that was computed in a relation has none: its affinity is the empty word.
    """
    return (expr.affinity or None) if isinstance(expr, ColumnRef | Cast) else None


def comparison_affinity(left: str | None, right: str | None) -> str | None:
    """What is applied to both operands before they are compared (datatype3.html, 4.2)."""
    if left is not None and right is not None:
        return "NUMERIC" if NUMERIC_AFFINITIES & {left, right} else None
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


def cast_type(operand: Type | None, affinity: str) -> Type | None:
    """CAST AS NUMERIC leaves numbers as they are; of the rest only the row tells."""
    if operand is None:
        return None
    return _CAST_TYPES.get(affinity) or (operand if operand in _NUMBERS else Type.ANY)


def common_type(types: Iterable[Type | None]) -> Type | None:
    """Of CASE, COALESCE and their like: the one type of all branches, NULLs aside."""
    known = {type for type in types if type is not None}
    if len(known) > 1:
        return Type.ANY
    return known.pop() if known else None


@dataclass(frozen=True, slots=True)
class Collating:
    """The collation an expression brings into a comparison. `explicit`: a COLLATE stands somewhere inside it."""

    name: str | None = None
    explicit: bool = False


NEUTRAL = Collating()


def compared(left: Collating, right: Collating) -> Collating:
    """Of two operands: an explicit COLLATE first, then the left, then the right."""
    if left.explicit or not right.explicit:
        return left if left.name is not None else right
    return right


def first_named(args: Iterable[Collating]) -> Collating:
    """Of min(), max() and nullif(): the first argument that has any."""
    return next((arg for arg in args if arg.name is not None), NEUTRAL)


def carried(args: Iterable[Collating]) -> Collating:
    """Out of an operator or function only an explicit COLLATE is carried, the first."""
    return next((arg for arg in args if arg.explicit), NEUTRAL)
