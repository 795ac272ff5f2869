"""Texts that PostgreSQL's functions make longer: padded, repeated, replaced, joined; up to a limit of our own. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.model.budget import INNER_VALUES
from headwater.model.limits import DEFAULT
from headwater.sql.evaluation import EvaluationError

_BYTES_MAX = 0x3FFFFFFF - 4  # of a text of PostgreSQL's, its length left out
_CHARACTER_BYTES = 4  # as many are set aside for each


def lpad(text: str, length: int, fill: str = " ") -> str:
    return (_padded(text, length, fill) + text)[: max(length, 0)]


def rpad(text: str, length: int, fill: str = " ") -> str:
    return (text + _padded(text, length, fill))[: max(length, 0)]


def _padded(text: str, length: int, fill: str) -> str:
    """What is added."""
    missing = length - len(text)
    if not fill or missing <= 0:
        return ""
    if _CHARACTER_BYTES * length > _BYTES_MAX:
        raise EvaluationError("requested length too large")
    _computed(length)
    return (fill * (missing // len(fill) + 1))[:missing]


def repeat(text: str, times: int) -> str:
    length = len(text.encode()) * max(times, 0)
    if length > _BYTES_MAX:
        raise EvaluationError("requested length too large")
    _computed(length)
    return text * max(times, 0)


def replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    if len(new) > len(old):
        _computed(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def joined(values: Iterable[str], separator: str = "") -> str:
    parts: list[str] = []
    length = 0
    for value in values:
        length += len(value) + len(separator)
        _bounded(length)
        parts.append(value)
    INNER_VALUES.charge(length)
    return separator.join(parts)


def _computed(length: int) -> None:
    """`length`: of what is about to be made, at the least."""
    _bounded(length)
    INNER_VALUES.charge(length)


def _bounded(length: int) -> None:
    if length > DEFAULT.value_bytes_max:
        raise EvaluationError(
            f"a value of {length:,} bytes is longer than the {DEFAULT.value_bytes_max:,} that Headwater computes"
        )
