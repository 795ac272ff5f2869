"""PostgreSQL's text of an array of one dimension, read and written. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ARRAY = re.compile(r'\{(?:(?:"(?:[^"\\]|\\.)*"|[^{}",\\\s]+)(?:,(?:"(?:[^"\\]|\\.)*"|[^{}",\\\s]+))*)?\}', re.S)
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{}",\\\s]+)', re.S)
_ESCAPE = re.compile(r"\\(.)", re.S)


def items_of(text: str) -> list[str | None] | None:
    """The text of each element; None where the array is of a form that is not known here."""
    if not _ARRAY.fullmatch(text):
        return None
    return [_item(found) for found in _ITEM.finditer(text)]


def _item(found: re.Match[str]) -> str | None:
    if found[2] is not None:
        return None if found[2].upper() == "NULL" else found[2]
    return _ESCAPE.sub(r"\1", found[1])


def array_text(texts: Sequence[Any]) -> str:
    """Each element is given as its text, None for NULL."""
    return "{" + ",".join("NULL" if text is None else _quoted(str(text)) for text in texts) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
