"""A span of time as SQL has it: months, days and microseconds, which no common measure joins. Pure."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

_PACKED = struct.Struct(">iiq")
_DAY_US = 86_400_000_000
_MOST = (2**31 - 1, 2**31 - 1, 2**63 - 1)
_LEAST = (-(2**31), -(2**31), -(2**63))
_WRITTEN = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)?"
    r" ?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)
_ISO = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """`str` writes it as ISO 8601 does. The largest and the least stand for infinity, as in PostgreSQL."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    @property
    def measure_us(self) -> int:
        """What intervals are compared by: a month has 30 days, a day 24 hours."""
        return (self.months * 30 + self.days) * _DAY_US + self.microseconds

    @property
    def timedelta(self) -> timedelta:
        """As drivers give it: a year of 365 days, other months of 30."""
        years, months = divmod(abs(self.months), 12)
        days = (years * 365 + months * 30) * (1 if self.months >= 0 else -1) + self.days
        return timedelta(days=days, microseconds=self.microseconds)

    def pack(self) -> bytes:
        return _PACKED.pack(self.months, self.days, self.microseconds)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        return cls(*_PACKED.unpack(packed))

    @classmethod
    def parse(cls, text: str) -> Self:
        """PostgreSQL's own writing (`1 year 2 mons -3 days 04:05:06.7`), or ISO 8601."""
        if text.lstrip("-") == "infinity":
            return cls(*(_LEAST if text[0] == "-" else _MOST))
        if text.startswith("P"):
            return cls._read_iso(text)
        read = _WRITTEN.fullmatch(text)
        if read is None:
            raise ValueError(f"expected an interval, found {text!r}")
        years, months, days, sign, hours, minutes, seconds, fraction = read.groups()
        us = _micros(hours, minutes, seconds, fraction)
        return cls(12 * int(years or 0) + int(months or 0), int(days or 0), -us if sign == "-" else us)

    @classmethod
    def _read_iso(cls, text: str) -> Self:
        read = _ISO.fullmatch(text)
        if read is None:
            raise ValueError(f"expected an interval, found {text!r}")
        years, months, days, hours, minutes, sign, seconds, fraction = read.groups()
        us = _micros(hours, minutes, None, None)
        seconds_us = _micros(None, None, seconds, fraction)
        return cls(12 * int(years or 0) + int(months or 0), int(days or 0), us + (-seconds_us if sign else seconds_us))

    def __str__(self) -> str:
        if (self.months, self.days, self.microseconds) in (_MOST, _LEAST):
            return "infinity" if self.months > 0 else "-infinity"
        sign = "-" if self.microseconds < 0 else ""
        seconds, fraction = divmod(abs(self.microseconds), 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        decimals = f".{fraction:06d}".rstrip("0") if fraction else ""
        second = f"{sign}{seconds}{decimals}S" if seconds or fraction else ""
        clock = _units(((f"{sign}{hours}", hours, "H"), (f"{sign}{minutes}", minutes, "M"))) + second
        years, months = divmod(abs(self.months), 12)
        back = "-" if self.months < 0 else ""
        calendar = _units(
            ((f"{back}{years}", years, "Y"), (f"{back}{months}", months, "M"), (str(self.days), self.days, "D"))
        )
        return f"P{calendar}{'T' + clock if clock else ''}" if calendar or clock else "PT0S"


def _micros(hours: str | None, minutes: str | None, seconds: str | None, fraction: str | None) -> int:
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole * 1_000_000 + int((fraction or "0").ljust(6, "0"))


def _units(parts: tuple[tuple[str, int, str], ...]) -> str:
    return "".join(text + unit for text, amount, unit in parts if amount)
