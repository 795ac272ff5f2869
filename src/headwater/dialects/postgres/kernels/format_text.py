"""Dates, times and intervals as PostgreSQL writes them, with ISO dates and in UTC. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.dialects.postgres.kernels.temporal import DATE_ENDS, INFINITE, MOMENT_ENDS
from headwater.model.time.calendar import civil
from headwater.model.time.epoch import DAY_US
from headwater.model.time.interval import Interval

_ENDS = ("-infinity", "infinity")


def date_text(days: int) -> str:
    return _ENDS[DATE_ENDS.index(days)] if days in DATE_ENDS else "{}{}".format(*_calendar(days))


def _calendar(days: int) -> tuple[str, str]:
    """The day, and the era behind it."""
    year, month, day = civil(days)
    return (f"{year:04d}-{month:02d}-{day:02d}", "") if year > 0 else (f"{1 - year:04d}-{month:02d}-{day:02d}", " BC")


def time_text(us: int) -> str:
    seconds, fraction = divmod(us, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _moment_text(zone: str) -> Callable[[int], str]:
    def text(us: int) -> str:
        if us in MOMENT_ENDS:
            return _ENDS[MOMENT_ENDS.index(us)]
        day, era = _calendar(us // DAY_US)
        return f"{day} {time_text(us % DAY_US)}{zone}{era}"

    return text


def interval_text(span: Interval) -> str:
    """A unit behind one that is negative says that it is not."""
    if span in INFINITE:
        return _ENDS[1 - INFINITE.index(span)]
    years, months = (abs(part) * (1 if span.months >= 0 else -1) for part in divmod(abs(span.months), 12))
    parts, before = list[str](), False
    for amount, unit in ((years, "year"), (months, "mon"), (span.days, "day")):
        if amount:
            sign = "+" if before and amount > 0 else ""
            parts.append(f"{sign}{amount} {unit}{'' if amount == 1 else 's'}")
            before = amount < 0
    if span.microseconds or not parts:
        sign = "-" if span.microseconds < 0 else "+" if before else ""
        parts.append(sign + time_text(abs(span.microseconds)))
    return " ".join(parts)


WRITTEN: dict[str, Callable[[Any], str]] = {
    "date": date_text,
    "time": time_text,
    "timestamp": _moment_text(""),
    "timestamptz": _moment_text("+00"),
    "interval": interval_text,
}
