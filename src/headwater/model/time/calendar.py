"""The Gregorian calendar without end in either direction: days since 1970, and a year 0 before year 1. Pure."""

from __future__ import annotations

_ERA_DAYS = 146_097  # 400 years
_SHIFT = 719_468  # from the first of March of year 0 to 1970
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day. Counted from March, so that a leap day is the last of its year."""
    era, of_era = divmod(days + _SHIFT, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, day


def days_from(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _SHIFT


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_days(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def weekday(days: int) -> int:
    """Monday is 1, Sunday 7."""
    return (days + 3) % 7 + 1


def iso_week(days: int) -> tuple[int, int]:
    """Year and number of the week: that of its Thursday."""
    thursday = days - weekday(days) + 4
    year = civil(thursday)[0]
    return year, (thursday - days_from(year, 1, 1)) // 7 + 1
