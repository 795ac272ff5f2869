"""Conditions that no row can make fail: only these may be tested on other pairs of rows than the query as written does.

An allow-list. What is not on it stays where the query has it.
"""

from __future__ import annotations

from headwater.model.value import Type
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr
from headwater.sql.ir.walk import children

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "is", "isnot"})
_SAFE = _COMPARISONS | {"and", "or", "not", "in", "notin", "between", "notbetween", "coalesce", "ifnull", "nullif"}
_SIGNS = frozenset({"+", "-", "*", "neg", "pos"})  # without a type before them: of SQLite, which never raises here
_TYPED = frozenset({"float8", "interval"})


def never_fails(expr: Expr) -> bool:
    match expr:
        case ColumnRef() | Const():
            return True
        case Call(name=name):
            safe = name in _SAFE or name in _SIGNS or _is_typed_comparison(name)
        case Cast(arg=arg, type=type):
            safe = arg.type is Type.INTEGER and type is Type.REAL
        case Case():
            safe = True
    return safe and all(map(never_fails, children(expr)))


def _is_typed_comparison(name: str) -> bool:
    """PostgreSQL's doubles and intervals have comparisons of their own."""
    type, _, sign = name.partition(" ")
    return type in _TYPED and sign in _COMPARISONS
