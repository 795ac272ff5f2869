"""Keys of values by which equals are found: two values that SQLite finds equal have the same key, whatever the affinity
and the built-in collation of their column. Values that are not equal may share a key.

So a number, and a text that reads like one, are the same number; other texts lose their case and the blanks behind.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from headwater.model.value import Value

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[ \t\n\v\f\r]*", re.ASCII)
_DIGITS_MAX = 15  # with so many, whoever turns a text into a float comes to the same one
_PLAIN_NUMBER = re.compile(r"[ ]*[+-]?\d+(?:\.\d+)?[ ]*", re.ASCII)


def stored_key(value: Value) -> Hashable | None:
    """None for what no column of SQLite holds."""
    match value:
        case int() | float():
            return float(value)
        case str():
            number = _NUMBER.fullmatch(value)
            return float(number[1]) if number else value.encode("utf-8", "surrogatepass").rstrip(b" ").lower()
        case bytes():
            return b"", value  # equal to no text
    return None


def asked_key(value: Value) -> Hashable | None:
    """None where SQLite may turn the value into another one before it compares: a fraction into text, or a text into a
    number that is rounded."""
    match value:
        case float():
            return stored_key(value) if value.is_integer() and abs(value) < 10**_DIGITS_MAX else None
        case str():
            return stored_key(value) if _is_plain(value) else None
    return stored_key(value)


def _is_plain(text: str) -> bool:
    if "\0" in text:
        return False
    digits = sum(letter.isdecimal() for letter in text)
    return not _NUMBER.fullmatch(text) or (_PLAIN_NUMBER.fullmatch(text) is not None and digits <= _DIGITS_MAX)
