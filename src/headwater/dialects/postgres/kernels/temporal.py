"""PostgreSQL's arithmetic of dates, times and intervals in UTC, and the errors it raises. Pure.

Moments are numbers as in `postgres_held`. It reaches a little less far than PostgreSQL does: to the year 294246, not
294276; what lies between is an error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.model.time.calendar import civil, days_from, month_days
from headwater.model.time.epoch import DAY_US
from headwater.model.time.interval import Interval
from headwater.sql.evaluation import EvaluationError

DATE_ENDS = (-(2**31), 2**31 - 1)
MOMENT_ENDS = (-(2**63), 2**63 - 1)
_DAYS = range(-2_440_588, 2_145_042_906)  # of a date
_MOMENT_DAYS = range(-2_440_588, 106_762_940)  # of a timestamp
_MOMENTS = range(_MOMENT_DAYS.start * DAY_US, _MOMENT_DAYS.stop * DAY_US)
_FIELDS = (range(-(2**31), 2**31), range(-(2**31), 2**31), range(-(2**63), 2**63))
INFINITE = (Interval(2**31 - 1, 2**31 - 1, 2**63 - 1), Interval(-(2**31), -(2**31), -(2**63)))


# Ends


def day(days: int) -> int:
    if days not in _DAYS:
        raise EvaluationError("date out of range")
    return days


def moment(us: int) -> int:
    if us not in _MOMENTS:
        raise EvaluationError("timestamp out of range")
    if us >= MOMENT_ENDS[1]:
        raise EvaluationError("a timestamp behind the year 294246 is not supported")
    return us


def interval(months: int, days: int, us: int) -> Interval:
    if not all(value in field for value, field in zip((months, days, us), _FIELDS, strict=True)):
        raise EvaluationError("interval out of range")
    return Interval(months, days, us)


# Casts


def wide_moment(days: int) -> int:
    """A date as a timestamp to compare with: one behind the last of them is still before infinity."""
    return {DATE_ENDS[0]: MOMENT_ENDS[0], DATE_ENDS[1]: MOMENT_ENDS[1]}.get(
        days, min(days * DAY_US, MOMENT_ENDS[1] - 1)
    )


def moment_of_date(days: int) -> int:
    if days not in DATE_ENDS and days not in _MOMENT_DAYS:
        raise EvaluationError("date out of range for timestamp")
    return wide_moment(days) if days in DATE_ENDS else moment(days * DAY_US)


def date_of_moment(us: int) -> int:
    return {MOMENT_ENDS[0]: DATE_ENDS[0], MOMENT_ENDS[1]: DATE_ENDS[1]}.get(us, us // DAY_US)


def time_of_moment(us: int) -> int | None:
    return None if us in MOMENT_ENDS else us % DAY_US


MOVED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("date", "timestamp"): moment_of_date,
    ("date", "timestamptz"): moment_of_date,
    ("timestamp", "timestamptz"): lambda us: us,
    ("timestamptz", "timestamp"): lambda us: us,
    **{(kind, "date"): date_of_moment for kind in ("timestamp", "timestamptz")},
    **{(kind, "time"): time_of_moment for kind in ("timestamp", "timestamptz")},
    ("time", "interval"): lambda us: Interval(0, 0, us),
}


# Sums and differences


def _date_plus(days: int, more: int) -> int:
    return days if days in DATE_ENDS else day(days + more)


def _between_dates(one: int, other: int) -> int:
    if one in DATE_ENDS or other in DATE_ENDS:
        raise EvaluationError("cannot subtract infinite dates")
    return one - other


def _date_at(days: int, us: int) -> int:
    whole = moment_of_date(days)
    return whole if whole in MOMENT_ENDS else moment(whole + us)


def moment_plus(us: int, span: Interval) -> int:
    """Months first, whose last day may come earlier; then days, then the rest: each must be within reach."""
    if span in INFINITE:
        return _towards(us, span)
    if us in MOMENT_ENDS:
        return us
    if span.months:
        us = _months_later(us, span.months)
    if span.days:
        us = _reached(us + span.days * DAY_US)
    return moment(us + span.microseconds)


def _towards(us: int, span: Interval) -> int:
    end = MOMENT_ENDS[span.months > 0]
    if us in MOMENT_ENDS and us != end:
        raise EvaluationError("timestamp out of range")
    return end


def _months_later(us: int, months: int) -> int:
    days, clock = divmod(us, DAY_US)
    year, month, day_of = civil(days)
    years, month = divmod(month - 1 + months, 12)
    year, month = year + years, month + 1
    return _reached(days_from(year, month, min(day_of, month_days(year, month))) * DAY_US + clock)


def _reached(us: int) -> int:
    if us not in _MOMENTS:
        raise EvaluationError("timestamp out of range")
    return us


def negated(span: Interval) -> Interval:
    if span in INFINITE:
        return INFINITE[1 - INFINITE.index(span)]
    return interval(-span.months, -span.days, -span.microseconds)


def _between(one: int, other: int) -> Interval:
    """Whole days, and what is left."""
    if one in MOMENT_ENDS or other in MOMENT_ENDS:
        raise EvaluationError("cannot subtract infinite timestamps")
    us = one - other
    days = abs(us) // DAY_US * (1 if us >= 0 else -1)
    return interval(0, days, us - days * DAY_US) if us in _FIELDS[2] else interval(0, 0, us)


def _time_plus(us: int, span: Interval) -> int:
    if span in INFINITE:
        raise EvaluationError("cannot add infinite interval to time")
    return (us + span.microseconds) % DAY_US


def _time_minus(us: int, span: Interval) -> int:
    if span in INFINITE:
        raise EvaluationError("cannot subtract infinite interval from time")
    return (us - span.microseconds) % DAY_US


def _together(one: Interval, other: Interval) -> Interval:
    if one in INFINITE or other in INFINITE:
        ends = {each for each in (one, other) if each in INFINITE}
        if len(ends) > 1:
            raise EvaluationError("interval out of range")
        return ends.pop()
    return interval(one.months + other.months, one.days + other.days, one.microseconds + other.microseconds)


def _apart(one: Interval, other: Interval) -> Interval:
    if one in INFINITE or other in INFINITE:
        return _together(one, negated(other))
    return interval(one.months - other.months, one.days - other.days, one.microseconds - other.microseconds)


def _made(year: int, month: int, day_of: int) -> int:
    """Years before Christ are negative, and told as counted from year 0."""
    counted = year + 1 if _FIELDS[0].start < year < 0 else year  # the least has no negative of its own
    told = f"{counted}-{month:02d}-{day_of:02d}"
    if year == 0 or not 1 <= month <= 12 or not 1 <= day_of <= month_days(counted, month):
        raise EvaluationError(f"date field value out of range: {told}")
    days = days_from(counted, month, day_of)
    if days not in _DAYS:
        raise EvaluationError(f"date out of range: {told}")
    return days


def _mirrored(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: function(other, one)


def _date_plus_interval(days: int, span: Interval) -> int:
    return moment_plus(moment_of_date(days), span)


_SPANNED: dict[str, Callable[[Any, Any], Any]] = {
    f"{kind} {form}": function
    for kind in ("timestamp", "timestamptz")
    for form, function in (
        (f"{kind}+interval", moment_plus),
        (f"interval+{kind}", _mirrored(moment_plus)),
        (f"{kind}-interval", lambda us, span: moment_plus(us, negated(span))),
    )
}
SUMS: dict[str, Callable[..., Any]] = {
    "timestamp wide": wide_moment,
    "date make_date": _made,
    "bool isfinite date": lambda days: days not in DATE_ENDS,
    "bool isfinite timestamp": lambda us: us not in MOMENT_ENDS,
    "bool isfinite timestamptz": lambda us: us not in MOMENT_ENDS,
    "date date+int4": _date_plus,
    "date int4+date": _mirrored(_date_plus),
    "date date-int4": lambda days, fewer: _date_plus(days, -fewer),
    "int4 date-date": _between_dates,
    "timestamp date+time": _date_at,
    "timestamp time+date": _mirrored(_date_at),
    "timestamp date+interval": _date_plus_interval,
    "timestamp interval+date": _mirrored(_date_plus_interval),
    "timestamp date-interval": lambda days, span: _date_plus_interval(days, negated(span)),
    **_SPANNED,
    "interval timestamp-timestamp": _between,
    "interval timestamptz-timestamptz": _between,
    "time time+interval": _time_plus,
    "time interval+time": _mirrored(_time_plus),
    "time time-interval": _time_minus,
    "interval time-time": lambda one, other: Interval(0, 0, one - other),
    "interval interval+interval": _together,
    "interval interval-interval": _apart,
    "interval neg": negated,
}
