"""Literals of dates, times, intervals and uuids, as PostgreSQL reads them with ISO dates in UTC. Pure.

Only forms that mean the same to everybody are read. Of any other it says nothing, and the source is asked; never is a
word of the clock among them (`now`, `today`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from uuid import UUID

from headwater.dialects.postgres.bind.json import canonical
from headwater.model.time.interval import Interval
from headwater.model.value import Value
from headwater.model.verbatim import Verbatim

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?"
_ZONE = r"(Z|[+-]\d\d(?::?\d\d)?)?"
_DAY = re.compile(_DATE, re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_MOMENT = re.compile(f"{_DATE}(?:[ T]{_CLOCK} ?{_ZONE})?", re.ASCII)
_GROUPS = re.compile(r"[0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7}", re.ASCII)
_AMOUNT = re.compile(rf"\s*(?:([+-]?\d{{1,9}})\s*([a-z]+)|([+-]?){_CLOCK})(?=\s|$)", re.ASCII)
_MONTHS = {"year": 12, "month": 1, "mon": 1}
_DAYS = {"week": 7, "day": 1}
_SECONDS = {"hour": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}
_INFINITY = ("infinity", "-infinity")


def read(text: str, kind: str) -> Value:
    """None where the text is of no form that is known here."""
    try:
        return _READERS[kind](text if kind == "bytea" else text.strip(" "))
    except ValueError:
        return None


def uuid_of(text: str) -> str | None:
    """Its 36 characters. Hyphens may stand behind every four digits, braces around them all."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return str(UUID(inner.replace("-", ""))) if _GROUPS.fullmatch(inner) else None


def _uuid(text: str) -> Value:
    known = uuid_of(text)
    return UUID(known) if known is not None else None


def _bytes(text: str) -> Value:
    """In hexadecimal, or letter by letter where none is escaped."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return text.encode() if "\\" not in text else None


def _jsonb(text: str) -> Value:
    written = canonical(text)
    return Verbatim("jsonb", written) if written is not None else None


def _date(text: str) -> Value:
    if text in _INFINITY:
        return Verbatim("date", text)
    found = _DAY.fullmatch(text)
    return date(*map(int, found.groups())) if found else None


def _time(text: str) -> Value:
    found = _TIME.fullmatch(text)
    return time(*_clock(found.groups())) if found else None


def _clock(parts: tuple[str | None, ...]) -> tuple[int, int, int, int]:
    hour, minute, second, fraction = parts
    return int(hour or 0), int(minute or 0), int(second or 0), int((fraction or "").ljust(6, "0"))


def _timestamp(text: str) -> Value:
    """A zone is read and left out, as PostgreSQL does."""
    if text in _INFINITY:
        return Verbatim("timestamp", text)
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day = map(int, found.groups()[:3])
    return datetime(year, month, day, *_clock(found.groups()[3:7]))


def _timestamptz(text: str) -> Value:
    if text in _INFINITY:
        return Verbatim("timestamptz", text)
    plain, found = _timestamp(text), _MOMENT.fullmatch(text)
    if found is None or not isinstance(plain, datetime):
        return None
    try:
        return plain.replace(tzinfo=_zone(found[8])).astimezone(UTC)
    except OverflowError:
        return None


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    sign, digits = -1 if text[0] == "-" else 1, text[1:].replace(":", "")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    if ahead >= timedelta(hours=15, minutes=59) or int(digits[2:] or 0) > 59:
        raise ValueError(text)
    return timezone(sign * ahead)


def _interval(text: str) -> Value:
    """`1 year 2 months`, `-3 days 04:05`, or as `Interval` writes itself."""
    if text in _INFINITY or text.startswith("P"):
        return Interval.parse(text)
    whole, place = Interval(), 0
    while place < len(text):
        found = _AMOUNT.match(text.lower(), place)
        if found is None:
            return None
        whole, place = _plus(whole, _part(found)), found.end()
    return whole if text else None


def _part(found: re.Match[str]) -> Interval:
    if found[2] is None:
        hour, minute, second, us = _clock(found.groups()[3:])
        if minute > 59 or second > 59:
            raise ValueError(found[0])
        return Interval(0, 0, (-1 if found[3] == "-" else 1) * (((hour * 60 + minute) * 60 + second) * 1_000_000 + us))
    amount, unit = int(found[1]), found[2].removesuffix("s")
    if unit in _MONTHS:
        return Interval(amount * _MONTHS[unit])
    if unit in _DAYS:
        return Interval(0, amount * _DAYS[unit])
    if unit in _SECONDS:
        return Interval(0, 0, amount * _SECONDS[unit] * 1_000_000)
    raise ValueError(found[0])


def _plus(one: Interval, other: Interval) -> Interval:
    whole = Interval(one.months + other.months, one.days + other.days, one.microseconds + other.microseconds)
    if max(abs(whole.months), abs(whole.days)) >= 1 << 31:
        raise ValueError("an interval out of range")
    return whole


_READERS: dict[str, Callable[[str], Value]] = {
    "uuid": _uuid,
    "bytea": _bytes,
    "jsonb": _jsonb,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
}
READ = frozenset(_READERS)
