"""Parts of dates, times and intervals as PostgreSQL takes them, and moments cut short to one: `date_part`, `extract`,
`date_trunc`, `age`. In UTC. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from headwater.dialects.postgres.kernels.temporal import DATE_ENDS, INFINITE, MOMENT_ENDS, moment_of_date
from headwater.model.time.calendar import civil, days_from, iso_week, month_days, weekday
from headwater.model.time.epoch import DAY_US
from headwater.model.time.interval import Interval
from headwater.sql.evaluation import EvaluationError

_SECOND_US, _MINUTE_US, _HOUR_US = 1_000_000, 60_000_000, 3_600_000_000
_RISING = ("year", "decade", "century", "millennium", "isoyear", "epoch")  # the parts that infinity has


# Parts of a day


def _year(year: int) -> int:
    """There is none between 1 BC and 1."""
    return year if year > 0 else year - 1


def _decade(days: int) -> int:
    return civil(days)[0] // 10


def _age(size: int) -> Callable[[int], int]:
    """Centuries and millennia begin with their first year, and are counted without a zeroth."""

    def of(days: int) -> int:
        year = civil(days)[0]
        return (year + size - 1) // size if year > 0 else -((size - year) // size)

    return of


_OF_DAY: dict[str, Callable[[int], int]] = {
    "year": lambda days: _year(civil(days)[0]),
    "month": lambda days: civil(days)[1],
    "day": lambda days: civil(days)[2],
    "quarter": lambda days: (civil(days)[1] - 1) // 3 + 1,
    "decade": _decade,
    "century": _age(100),
    "millennium": _age(1000),
    "dow": lambda days: weekday(days) % 7,
    "isodow": weekday,
    "doy": lambda days: days - days_from(civil(days)[0], 1, 1) + 1,
    "week": lambda days: iso_week(days)[1],
    "isoyear": lambda days: _year(iso_week(days)[0]),
}


# Parts of the clock: how many microseconds, and where its point stands

_OF_CLOCK: dict[str, Callable[[int], int]] = {
    "hour": lambda us: us // _HOUR_US,
    "minute": lambda us: us // _MINUTE_US % 60,
    "microseconds": lambda us: us % _MINUTE_US,
}
_FRACTIONS = {"second": 6, "milliseconds": 3}


def _clock_part(unit: str, us: int) -> float:
    if unit in _OF_CLOCK:
        return float(_OF_CLOCK[unit](us))
    whole, fraction = divmod(us % _MINUTE_US, _SECOND_US)
    return whole + fraction / 1_000_000.0 if unit == "second" else whole * 1000.0 + fraction / 1000.0


def _clock_number(unit: str, us: int) -> Decimal:
    if unit in _OF_CLOCK:
        return Decimal(_OF_CLOCK[unit](us))
    return Decimal(us % _MINUTE_US).scaleb(-_FRACTIONS[unit])


def moment_part(unit: str, us: int) -> float | None:
    if us in MOMENT_ENDS:
        return math.copysign(math.inf, us) if unit in _RISING else None
    if unit == "epoch":
        return us / 1_000_000.0
    return float(_OF_DAY[unit](us // DAY_US)) if unit in _OF_DAY else _clock_part(unit, us % DAY_US)


def moment_number(unit: str, us: int) -> Decimal | None:
    if us in MOMENT_ENDS:
        return Decimal("Infinity").copy_sign(Decimal(us)) if unit in _RISING else None
    if unit == "epoch":
        return Decimal(us).scaleb(-6)
    return Decimal(_OF_DAY[unit](us // DAY_US)) if unit in _OF_DAY else _clock_number(unit, us % DAY_US)


def date_part(unit: str, days: int) -> float | None:
    return moment_part(unit, moment_of_date(days))


def time_part(unit: str, us: int) -> float:
    return us / 1_000_000.0 if unit == "epoch" else _clock_part(unit, us)


def time_number(unit: str, us: int) -> Decimal:
    return Decimal(us).scaleb(-6) if unit == "epoch" else _clock_number(unit, us)


# Cut short


def _weeks(days: int) -> int:
    return days - weekday(days) + 1


def _whole_years(size: int, first: int) -> Callable[[int], int]:
    """To the first day of the years that are `size` together; those begin with the year `first` or its like."""

    def of(days: int) -> int:
        year = civil(days)[0]
        return days_from((year - first) // size * size + first, 1, 1)

    return of


def _whole_months(size: int) -> Callable[[int], int]:
    def of(days: int) -> int:
        year, month, _ = civil(days)
        return days_from(year, (month - 1) // size * size + 1, 1)

    return of


_TO_DAY: dict[str, Callable[[int], int]] = {
    "day": lambda days: days,
    "week": _weeks,
    "month": _whole_months(1),
    "quarter": _whole_months(3),
    "year": _whole_years(1, 0),
    "decade": _whole_years(10, 0),
    "century": _whole_years(100, 1),
    "millennium": _whole_years(1000, 1),
}
_TO_US = {"microseconds": 1, "milliseconds": 1000, "second": _SECOND_US, "minute": _MINUTE_US, "hour": _HOUR_US}


def truncated(unit: str, us: int) -> int:
    if us in MOMENT_ENDS:
        return us
    if unit in _TO_US:
        return us - us % _TO_US[unit]
    whole = _TO_DAY[unit](us // DAY_US) * DAY_US
    if whole < -2_440_588 * DAY_US:
        raise EvaluationError("timestamp out of range")
    return whole


# Age


def age(one: int, other: int) -> Interval:
    """Years, months and days as a person counts them; days are borrowed from the month of the earlier moment."""
    if one in MOMENT_ENDS or other in MOMENT_ENDS:
        raise EvaluationError("timestamp out of range")
    (late, late_us), (early, early_us) = (divmod(each, DAY_US) for each in (one, other))
    (y1, m1, d1), (y2, m2, d2) = civil(late), civil(early)
    months, days, us, sign = (y1 - y2) * 12 + m1 - m2, d1 - d2, late_us - early_us, 1
    if one < other:
        months, days, us, sign = -months, -days, -us, -1
    if us < 0:
        us, days = us + DAY_US, days - 1
    while days < 0:
        borrowed = (y2, m2) if sign > 0 else (y1, m1)
        days, months = days + month_days(*borrowed), months - 1
    return Interval(sign * months, sign * days, sign * us)


# Intervals


def interval_part(unit: str, span: Interval) -> float | None:
    """Of an infinite one nothing is told: what PostgreSQL says differs from version to version."""
    if span in INFINITE:
        raise EvaluationError("parts of an infinite interval are not supported")
    sign, back = (1 if span.months >= 0 else -1), (1 if span.microseconds >= 0 else -1)
    years, months = (sign * each for each in divmod(abs(span.months), 12))
    us = abs(span.microseconds)
    if unit == "epoch":
        return ((span.microseconds / 1_000_000.0 + 31557600.0 * years) + 2592000.0 * months) + 86400.0 * span.days
    if unit in ("year", "month", "day"):
        return float({"year": years, "month": months, "day": span.days}[unit])
    if unit == "hour":
        return float(back * (us // _HOUR_US))
    if unit in _OF_CLOCK:
        return float(back * _OF_CLOCK[unit](us))
    whole, fraction = (back * each for each in divmod(us % _MINUTE_US, _SECOND_US))
    return whole + fraction / 1_000_000.0 if unit == "second" else whole * 1000.0 + fraction / 1000.0


def interval_number(unit: str, span: Interval) -> Decimal:
    if span in INFINITE:
        raise EvaluationError("parts of an infinite interval are not supported")
    sign, back = (1 if span.months >= 0 else -1), (1 if span.microseconds >= 0 else -1)
    years, months = (sign * each for each in divmod(abs(span.months), 12))
    us = abs(span.microseconds)
    if unit == "epoch":
        quarters = 1461 * years + 120 * months + 4 * span.days  # of a day: a year has 365 and one of them
        return Decimal(span.microseconds + quarters * (DAY_US // 4)).scaleb(-6)
    if unit in ("year", "month", "day"):
        return Decimal({"year": years, "month": months, "day": span.days}[unit])
    if unit in _FRACTIONS:
        return Decimal(back * (us % _MINUTE_US)).scaleb(-_FRACTIONS[unit])
    return Decimal(back * _OF_CLOCK[unit](us))


def date_number(unit: str, days: int) -> Decimal | None:
    if days in DATE_ENDS:
        return Decimal("Infinity").copy_sign(Decimal(days)) if unit in _RISING else None
    return Decimal(days * 86_400 if unit == "epoch" else _OF_DAY[unit](days))


PARTS: dict[str, Callable[..., Any]] = {
    "float8 date_part date": date_part,
    "float8 date_part time": time_part,
    "float8 date_part timestamp": moment_part,
    "float8 date_part timestamptz": moment_part,
    "float8 date_part interval": interval_part,
    "numeric extract date": date_number,
    "numeric extract time": time_number,
    "numeric extract timestamp": moment_number,
    "numeric extract timestamptz": moment_number,
    "numeric extract interval": interval_number,
    "timestamp date_trunc": truncated,
    "timestamptz date_trunc": truncated,
    "interval age": age,
}
