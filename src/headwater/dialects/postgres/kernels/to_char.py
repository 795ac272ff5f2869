"""Moments written by a format, as `to_char` of PostgreSQL writes them in UTC. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.dialects.postgres.kernels.temporal import MOMENT_ENDS
from headwater.dialects.postgres.literals.to_char_format import Piece, pieces
from headwater.model.time.calendar import civil, days_from, iso_week, weekday
from headwater.model.time.epoch import DAY_US

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAME_LETTERS = 9  # of the longest, to which they are filled up
_SHORT = 3


@dataclass(frozen=True, slots=True)
class _Moment:
    """In parts: `year` has a zeroth, `days` and `us` are since 1970 and since midnight."""

    days: int
    us: int
    year: int
    month: int
    day: int

    @property
    def hour(self) -> int:
        return self.us // 3_600_000_000


def _era(year: int) -> int:
    return year if year > 0 else 1 - year


_NUMBERS: dict[str, tuple[int, Callable[[_Moment], int]]] = {  # how many digits at least, and which
    "YYYY": (4, lambda at: _era(at.year)),
    "YY": (2, lambda at: _era(at.year) % 100),
    "IYYY": (4, lambda at: _era(iso_week(at.days)[0])),
    "MM": (2, lambda at: at.month),
    "DDD": (3, lambda at: at.days - days_from(at.year, 1, 1) + 1),
    "DD": (2, lambda at: at.day),
    "ID": (1, lambda at: weekday(at.days)),
    "D": (1, lambda at: weekday(at.days) % 7 + 1),
    "HH24": (2, lambda at: at.hour),
    "HH12": (2, lambda at: (at.hour + 11) % 12 + 1),
    "HH": (2, lambda at: (at.hour + 11) % 12 + 1),
    "MI": (2, lambda at: at.us // 60_000_000 % 60),
    "SS": (2, lambda at: at.us // 1_000_000 % 60),
    "MS": (3, lambda at: at.us // 1000 % 1000),
    "US": (6, lambda at: at.us % 1_000_000),
    "Q": (1, lambda at: (at.month - 1) // 3 + 1),
    "IW": (2, lambda at: iso_week(at.days)[1]),
    "WW": (2, lambda at: (at.days - days_from(at.year, 1, 1)) // 7 + 1),
}
_FILLED_ALWAYS = ("MS", "US")


def to_char(us: int, format: str) -> str | None:
    """Infinity is not written."""
    if us in MOMENT_ENDS:
        return None
    days, clock = divmod(us, DAY_US)
    at = _Moment(days, clock, *civil(days))
    return "".join(_written(at, piece) for piece in pieces(format) or ())


def _written(at: _Moment, piece: Piece) -> str:
    word = piece.word.upper()
    if not word:
        return piece.text
    if word in ("AM", "PM"):
        half = "PM" if at.hour >= 12 else "AM"
        return half if piece.word.isupper() else half.lower()
    if word in _NUMBERS:
        digits, number = _NUMBERS[word]
        return f"{number(at):0{1 if piece.bare and word not in _FILLED_ALWAYS else digits}d}"
    return _named(at, piece, word)


def _named(at: _Moment, piece: Piece, word: str) -> str:
    """A month or a day, in the letters of the format's own case."""
    name = _MONTHS[at.month - 1] if word.startswith("MON") else _DAYS[weekday(at.days) - 1]
    if word in ("MON", "DY"):
        name = name[:_SHORT]
    elif not piece.bare:
        name = name.ljust(_NAME_LETTERS)
    return name.upper() if piece.word.isupper() else name.lower() if piece.word.islower() else name
