"""How much longer than its arguments an expression may become. Values inside an expression are seen by nobody, so that
nothing weighs them: what may grow without bound is left to the database. Evaluates no row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.dialects.sqlite.functions import FORMATS
from headwater.model.value import Value
from headwater.sql.ir.expr import Call, Const, Expr
from headwater.sql.ir.walk import children

_GROWTH_MAX = 256  # times its arguments
_BLOB_BYTES_MAX = 64 << 10
_ANY = _GROWTH_MAX + 1  # without bound
_DOUBLED = ("hex", "quote")
GROWING = frozenset((*FORMATS, *_DOUBLED, "replace", "zeroblob"))


def grows_too_long(name: str, args: Sequence[Expr]) -> str | None:
    """What to do instead, where a call may make a value of any length."""
    if name in FORMATS:
        return None if _is_bounded_format(args) else "give the format as a constant, with widths of up to three digits"
    if name == "zeroblob":
        size = _constant(args[0])
        within = isinstance(size, int) and size <= _BLOB_BYTES_MAX
        return None if within else f"give its length as a constant of up to {_BLOB_BYTES_MAX:,}"
    if name in GROWING and _call_growth(name, args) > _GROWTH_MAX:
        return f"let texts become at most {_GROWTH_MAX} times as long as they are stored"
    return None


def _is_bounded_format(args: Sequence[Expr]) -> bool:
    """Where a text would become too long, SQLite's printf() gives NULL and no error."""
    return not args or (isinstance(args[0], Const) and re.search(r"%[^A-Za-z%]*(\*|\d{4})", str(args[0].value)) is None)


def _growth(expr: Expr) -> int:
    if isinstance(expr, Call):
        return _call_growth(expr.name, expr.args)
    return max(map(_growth, children(expr)), default=1)


def _call_growth(name: str, args: Sequence[Expr]) -> int:
    """Saturated: nothing is said of what is larger than the limit."""
    of_args = [_growth(arg) for arg in args]
    grown = max(of_args, default=1)
    if name in _DOUBLED:
        grown *= 2
    elif name == "replace":
        grown *= _replaced(args)
    elif name == "||" or name in FORMATS:
        grown = sum(of_args)
    return min(grown, _ANY)


def _replaced(args: Sequence[Expr]) -> int:
    """How much longer a text becomes at most."""
    old, new = (_constant(arg) for arg in args[1:3])
    if old is not None and not _length(old):
        return 1
    if new is None:
        return _ANY
    return max(1, -(-_length(new) // (1 if old is None else _length(old))))


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else len(str(value))


def _constant(expr: Expr) -> Value:
    return expr.value if isinstance(expr, Const) else None
