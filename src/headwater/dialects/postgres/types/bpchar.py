"""char(n): texts filled up with blanks that do not count. `bpchar 5` is the kind of char(5). Pure.

Equal values of one length look the same; as text they have no blanks behind them.
"""

from __future__ import annotations

import re

from headwater.dialects.postgres.types.kind import PostgresKind
from headwater.model.value import Type
from headwater.sql.ir.expr import Cast, Const, Expr

MARK = "\ue000"  # stands for a value that is not known yet, whatever its type
_DECLARED = re.compile(r"character\((\d+)\)")


def kind_of_padded(declared: str, text: PostgresKind) -> PostgresKind | None:
    """`text` is the kind of a text of the same collation. None for what is no char(n)."""
    found = _DECLARED.fullmatch(declared)
    return PostgresKind("bpchar", length=int(found[1]), element=text) if found is not None else None


def is_padded(kind: PostgresKind) -> bool:
    return kind.base == "bpchar"


def as_text(expr: Expr, kind: PostgresKind) -> Expr:
    """Without the blanks, where it is a char(n)."""
    return Cast(expr, kind.element, Type.TEXT) if is_padded(kind) and kind.element is not None else expr


def filled(text: str, kind: PostgresKind) -> Const:
    """A constant as a column of the kind would hold it; one that is too long equals none."""
    if text.startswith(MARK):
        return Const(text, Type.TEXT)
    return Const(text.rstrip(" ").ljust(kind.length or 0), Type.TEXT)


def stripped(text: str) -> Const:
    return Const(text.rstrip(" "), Type.TEXT)
