"""Arrays as PostgreSQL's operators and functions take them: tuples, nested where there are several dimensions. Pure.

One that does not count from 1 is known by its text alone, and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headwater.dialects.postgres.kernels.runtime_values import held
from headwater.dialects.postgres.types.kind import PLAIN
from headwater.dialects.postgres.types.kinds import TYPES
from headwater.sql.evaluation import EvaluationError

_BASES = sorted(kind.base for kind in PLAIN)
_STRANGE = "an array that does not count from 1 is not supported"


def _elements(array: Any) -> Iterator[Any]:
    """Of all dimensions."""
    if not isinstance(array, tuple):
        raise EvaluationError(_STRANGE)
    for each in array:
        if isinstance(each, tuple):
            yield from _elements(each)
        else:
            yield each


def _any(base: str) -> Callable[[Any, Any], bool | None]:
    """`needle = ANY (array)`. A needle is as operators hold it, an element as it is shown. In nothing there is no NULL
    either."""
    type = TYPES[base]

    def found(needle: Any, array: Any) -> bool | None:
        if array is None:
            return None
        elements = [held(each, type) for each in _elements(array)]
        if needle is None:
            return None if elements else False
        return True if needle in elements else None if None in elements else False

    return found


def _subscript(base: str) -> Callable[[Any, int], Any]:
    """Outside there is nothing, nor where one number is too few."""
    type = TYPES[base]

    def taken(array: Any, place: int) -> Any:
        if not isinstance(array, tuple):
            raise EvaluationError(_STRANGE)
        element = array[place - 1] if 1 <= place <= len(array) else None
        return None if isinstance(element, tuple) else held(element, type)

    return taken


def _length(array: Any, dimension: int) -> int | None:
    if not isinstance(array, tuple):
        raise EvaluationError(_STRANGE)
    for _ in range(dimension - 1):
        array = array[0] if array and isinstance(array[0], tuple) else ()
    return len(array) or None if dimension > 0 else None


def _contains(array: Any, other: Any) -> bool:
    """NULLs are found nowhere."""
    known = set(_elements(array)) - {None}
    return all(each in known for each in _elements(other))


def _overlaps(array: Any, other: Any) -> bool:
    return bool((set(_elements(array)) & set(_elements(other))) - {None})


def _joined(array: Any, separator: str) -> str:
    return separator.join(text for text in _elements(array) if text is not None)


MEMBERSHIP: dict[str, Callable[[Any, Any], bool | None]] = {f"bool any {base}": _any(base) for base in _BASES}
STRICT: dict[str, Callable[..., Any]] = {
    **{f"{base} []": _subscript(base) for base in _BASES},
    "bool array@>array": _contains,
    "bool array<@array": lambda array, other: _contains(other, array),
    "bool array&&array": _overlaps,
    "int4 array_length": _length,
    "int4 cardinality": lambda array: sum(1 for _ in _elements(array)),
    "array_to_string": _joined,
}
