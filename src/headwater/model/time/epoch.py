"""Dates and times as numbers, which order as they do: days and microseconds since 1970. Pure.

Python's own types reach from year 1 to 9999 and know no infinity. What lies beyond is `Verbatim`, in PostgreSQL's
writing; as numbers the largest and the least of 32 or 64 bits are infinity.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from headwater.model.verbatim import Verbatim

Date = date | Verbatim
Time = time | Verbatim
Moment = datetime | Verbatim

DAY_US = 86_400_000_000
_MIDNIGHT = "24:00:00"
_FIRST = date(1970, 1, 1).toordinal()
_NAIVE, _AWARE = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_DAYS = (-(2**31), 2**31 - 1)
_MICROS = (-(2**63), 2**63 - 1)
_YEAR_MAX = 294_246  # the last whole one that 64 bits of microseconds reach


def days_of(value: Date) -> int:
    return (
        _infinite(value, _DAYS) or _far_days(value.text) if isinstance(value, Verbatim) else value.toordinal() - _FIRST
    )


def date_of(days: int) -> Date:
    if 1 - _FIRST <= days <= date.max.toordinal() - _FIRST:
        return date.fromordinal(days + _FIRST)
    return Verbatim("date", _infinity(days, _DAYS) or _written(days))


def time_us_of(value: Time) -> int:
    if isinstance(value, Verbatim):
        return DAY_US
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def time_of(us: int) -> Time:
    return (datetime.min + timedelta(microseconds=us)).time() if us < DAY_US else Verbatim("time", _MIDNIGHT)


def moment_us_of(value: Moment) -> int:
    if isinstance(value, Verbatim):
        return _infinite(value, _MICROS) or _far_micros(value.text)
    return (value - (_NAIVE if value.tzinfo is None else _AWARE)) // _TICK


def moment_of(us: int, aware: bool) -> Moment:
    try:
        return (_AWARE if aware else _NAIVE) + timedelta(microseconds=us)
    except OverflowError:
        return Verbatim("timestamptz" if aware else "timestamp", _infinity(us, _MICROS) or _far_text(us, aware))


def read_date(text: str) -> Date:
    """From PostgreSQL's ISO writing."""
    return date.fromisoformat(text) if len(text) == 10 else Verbatim("date", text)


def read_time(text: str) -> Time:
    return time.fromisoformat(text) if text != _MIDNIGHT else Verbatim("time", text)


def read_moment(text: str) -> Moment:
    """Without a zone."""
    return datetime.fromisoformat(text) if _is_near(text) else Verbatim("timestamp", text)


def read_moment_utc(text: str) -> Moment:
    """With the zone +00."""
    return datetime.fromisoformat(text).astimezone(UTC) if _is_near(text) else Verbatim("timestamptz", text)


def _is_near(text: str) -> bool:
    """Four digits of a year, and neither `BC` nor `infinity`."""
    return text[4:5] == "-" and text[-1] != "C" and text[0] != "-"


def _infinite(value: Verbatim, ends: tuple[int, int]) -> int:
    return {"infinity": ends[1], "-infinity": ends[0]}.get(value.text, 0)


def _infinity(number: int, ends: tuple[int, int]) -> str:
    return {ends[1]: "infinity", ends[0]: "-infinity"}.get(number, "")


def _far_days(text: str) -> int:
    day, _, era = text.partition(" ")
    year, rest = day.split("-", 1)
    counted = 1 - int(year) if era == "BC" else int(year)
    import numpy as np  # only where Python's own dates end

    return int(np.datetime64(f"{counted:05d}-{rest}", "D").astype(np.int64))


def _far_micros(text: str) -> int:
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").split(" ", 1)
    if int(day.split("-", 1)[0]) > _YEAR_MAX:
        raise OverflowError(f"expected a time up to the year {_YEAR_MAX}, found {text}")
    return _far_days(day + era) * DAY_US + time_us_of(time.fromisoformat(clock.removesuffix("+00")))


def _far_text(us: int, aware: bool) -> str:
    days, clock = divmod(us, DAY_US)
    day, _, era = _written(days).partition(" ")
    of_day = _clock(time_of(clock))
    return f"{day} {of_day}{'+00' if aware else ''}{' ' + era if era else ''}"


def _clock(value: Time) -> str:
    text = str(value)
    return text.rstrip("0") if "." in text else text


def _written(days: int) -> str:
    import numpy as np

    whole = str(np.datetime64(days, "D"))
    year, rest = whole.lstrip("-").split("-", 1)
    counted = -int(year) if whole.startswith("-") else int(year)
    return f"{counted:04d}-{rest}" if counted > 0 else f"{1 - counted:04d}-{rest} BC"
