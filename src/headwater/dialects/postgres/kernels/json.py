"""PostgreSQL's json and jsonb taken apart: every part is a piece of the text it stands in, and nothing is rewritten.

jsonb comes as PostgreSQL writes it: keys in its own order, each once, one blank behind every comma and colon. json is
as its user wrote it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from headwater.sql.evaluation import EvaluationError

_SCAN = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_PARSE = json.JSONDecoder(parse_int=Decimal, parse_float=Decimal).decode
_BLANK = re.compile(r"[ \t\n\r]*")
_INDEX = re.compile(r"[ \t\n\v\f\r]*[+-]?\d{1,9}", re.ASCII)
_LONE = re.compile("[\ud800-\udfff]")
_INDEX_ENDS = (-(1 << 31), (1 << 31) - 1)


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _end(text: str, at: int) -> int:
    """Where the value ends that begins here."""
    try:
        return int(_SCAN(text, at)[1])
    except RecursionError:
        raise EvaluationError("a document that is nested so deeply is not supported") from None


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values of an object."""
    at = _after_blank(text, 1)
    while text[at] != "}":
        key, at = _SCAN(text, at)
        start = _after_blank(text, _after_blank(text, at) + 1)
        end = _end(text, start)
        yield key, text[start:end]
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at


def _elements(text: str) -> list[str]:
    found, at = list[str](), _after_blank(text, 1)
    while text[at] != "]":
        end = _end(text, at)
        found.append(text[at:end])
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at
    return found


def member(text: str, key: str) -> str | None:
    """The last of that key."""
    text = text.strip(" \t\n\r")
    found = None
    for name, value in _members(text) if text.startswith("{") else ():
        found = value if name == key else found
    return found


def element(text: str, index: int) -> str | None:
    """Negative ones count from the end."""
    text = text.strip(" \t\n\r")
    elements = _elements(text) if text.startswith("[") else []
    return elements[index] if -len(elements) <= index < len(elements) else None


def element_b(text: str, index: int) -> str | None:
    """To jsonb a scalar that stands alone is an array of one."""
    return element(text if text[0] in "[{" else f"[{text}]", index)


def follow(text: str, path: tuple[str | None, ...]) -> str | None:
    """A step into an array is a number."""
    found: str | None = text.strip(" \t\n\r")
    for step in path:
        if found is None or step is None:
            return None
        if found.startswith("["):
            index = int(step) if _INDEX.fullmatch(step) else _INDEX_ENDS[1]
            found = element(found, index)
        else:
            found = member(found, step)
    return found


def as_text(value: str | None) -> str | None:
    """A string without its quotes, null as NULL, all else as it is written."""
    if value is None or value == "null":
        return None
    if not value.startswith('"'):
        return value
    text = str(_SCAN(value, 0)[0])
    if "\0" in text:
        raise EvaluationError("unsupported Unicode escape sequence")
    return text


def _told(part: Callable[..., str | None]) -> Callable[..., str | None]:
    return lambda text, place: as_text(part(text, place))


def _read_all(part: Callable[..., str | None]) -> Callable[..., str | None]:
    """Of json every string is read on the way, and must be one that PostgreSQL has."""

    def checked(text: str, place: Any) -> str | None:
        if "\\u" in text and not (isinstance(place, tuple) and None in place):
            strings = json.dumps(_parsed(text), ensure_ascii=False, default=str)
            if "\\u0000" in strings:
                raise EvaluationError("unsupported Unicode escape sequence")
            if _LONE.search(strings):
                raise EvaluationError("invalid input syntax for type json")
        return part(text, place)

    return checked


def kind(text: str) -> str:
    first = text.strip(" \t\n\r")[0]
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        first, "number"
    )


def length(text: str) -> int:
    what = kind(text)
    if what != "array":
        raise EvaluationError(f"cannot get array length of {'a non-array' if what == 'object' else 'a scalar'}")
    return len(_elements(text.strip(" \t\n\r")))


# Values as a whole


def _parsed(text: str) -> Any:
    try:
        return _PARSE(text)
    except RecursionError:
        raise EvaluationError("a document that is nested so deeply is not supported") from None


def _same(one: Any, other: Any) -> bool:
    """Truth is no number here."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def equal(one: str, other: str) -> bool:
    return one == other or _same(_parsed(one), _parsed(other))


def contains(whole: str, part: str) -> bool:
    one, other = _parsed(whole), _parsed(part)
    if isinstance(one, list) and not isinstance(other, list | dict):
        return any(_same(each, other) for each in one)
    return _contains(one, other)


def _contains(one: Any, other: Any) -> bool:
    """Every member and element of the other is there, in whatever order and number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(key in one and _contains(one[key], value) for key, value in other.items())
    if isinstance(one, list) and isinstance(other, list):
        return all(any(_contains(each, wanted) for each in one) for wanted in other)
    return _same(one, other)


def has(text: str, key: str) -> bool:
    """As a key of an object, or a string in an array; or it is that string."""
    value = _parsed(text)
    return key in value if isinstance(value, dict) else any(_same(each, key) for each in _listed(value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_TAKEN: dict[str, Callable[..., str | None]] = {"->text": member, "->int4": element, "#>path": follow}
JSON: dict[str, Callable[..., Any]] = {
    **{f"json json{how}": _read_all(part) for how, part in _TAKEN.items()},
    **{f"text json{how.replace('>', '>>')}": _told(_read_all(part)) for how, part in _TAKEN.items()},
    **{f"jsonb jsonb{how}": part for how, part in (_TAKEN | {"->int4": element_b}).items()},
    **{f"text jsonb{how.replace('>', '>>')}": _told(part) for how, part in (_TAKEN | {"->int4": element_b}).items()},
    **{f"text {doc}_typeof": kind for doc in ("json", "jsonb")},
    **{f"int4 {doc}_array_length": length for doc in ("json", "jsonb")},
    "jsonb =": equal,
    "jsonb <>": lambda one, other: not equal(one, other),
    "bool jsonb@>jsonb": contains,
    "bool jsonb<@jsonb": lambda one, other: contains(other, one),
    "bool jsonb?text": has,
}
