"""How dates, times and intervals meet in PostgreSQL: what a sum of two is, and how one is compared with another. Pure.

In UTC, to which every session is pinned: there a timestamp with a zone and one without are the same number.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from headwater.dialects.postgres.types.kind import DATE, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, PostgresKind
from headwater.dialects.postgres.types.kinds import kind_of, type_of_kind
from headwater.model.value import Type
from headwater.model.verbatim import Verbatim
from headwater.sql.ir.expr import Call, Cast, Const, Expr

DATED = (DATE, TIMESTAMP, TIMESTAMPTZ)
TIMES = (*DATED, TIME, INTERVAL)
CASTS = frozenset(
    {
        *((one.base, other.base) for one in DATED for other in DATED if one != other),
        ("timestamp", "time"),
        ("timestamptz", "time"),
        ("time", "interval"),
        *((kind.base, "text") for kind in TIMES),
    }
)
_SUMS = {
    ("date", "+", "int4"): "date",
    ("int4", "+", "date"): "date",
    ("date", "-", "int4"): "date",
    ("date", "-", "date"): "int4",
    ("date", "+", "time"): "timestamp",
    ("time", "+", "date"): "timestamp",
    ("time", "-", "time"): "interval",
    **{(base, "-", base): "interval" for base in ("timestamp", "timestamptz")},
    **{
        form: "timestamp" if base == "date" else base
        for base in (kind.base for kind in TIMES)
        for form in ((base, "+", "interval"), ("interval", "+", base), (base, "-", "interval"))
    },
}


def summed(sign: str, left: Expr, right: Expr) -> Call | None:
    """The sum or difference of two, where one is a date, a time or an interval; None where PostgreSQL has none, or we
    do not know it."""
    one, other = (str(kind_of(side)).replace("int2", "int4") for side in (left, right))
    gives = _SUMS.get((one, sign, other))
    return Call(f"{gives} {one}{sign}{other}", (left, right), type_of_kind(PostgresKind(gives))) if gives else None


def comparable(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    """Two moments of different types as moments of one; None where they are not such."""
    kinds = {kind_of(left), kind_of(right)}
    if len(kinds) != 2 or not kinds <= set(DATED):
        return None
    wanted = TIMESTAMPTZ if TIMESTAMPTZ in kinds else TIMESTAMP
    return _as_moment(left, wanted), _as_moment(right, wanted)


def _as_moment(expr: Expr, kind: PostgresKind) -> Expr:
    """Dates reach further than timestamps do, and are compared all the same."""
    own = kind_of(expr)
    if isinstance(expr, Const):
        return moved(expr, kind)
    if own == DATE:
        return Call("timestamp wide", (expr,), Type.TIMESTAMP)
    return expr


def moved(expr: Expr, kind: PostgresKind) -> Expr:
    """Cast among moments; a constant at once, so that a column may be asked for it."""
    own = kind_of(expr)
    if own == kind:
        return expr
    if not isinstance(expr, Const) or kind not in (TIMESTAMP, TIMESTAMPTZ):
        return Cast(expr, kind, type_of_kind(kind))
    zone = UTC if kind == TIMESTAMPTZ else None
    match expr.value:
        case Verbatim(text="infinity" | "-infinity" as text):
            return Const(Verbatim(kind.base, text), type_of_kind(kind))
        case datetime() as moment:
            return Const(moment.replace(tzinfo=zone), type_of_kind(kind))
        case date() as day:
            return Const(datetime.combine(day, time(), zone), type_of_kind(kind))
        case _:
            return Cast(expr, kind, type_of_kind(kind))
