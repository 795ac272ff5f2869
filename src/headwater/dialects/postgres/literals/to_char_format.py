"""Formats of `to_char` for moments, read into pieces as PostgreSQL reads them. Pure.

Only words that mean the same everywhere are read, and signs between them; of a format with anything else, or with
words that run into longer ones, it says nothing, and the source is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

NUMBERS = (
    "YYYY",
    "IYYY",
    "YY",
    "MM",
    "DDD",
    "DD",
    "ID",
    "D",
    "HH24",
    "HH12",
    "HH",
    "MI",
    "SS",
    "MS",
    "US",
    "Q",
    "IW",
    "WW",
)
NAMES = ("Month", "Mon", "Day", "Dy", "AM", "PM")
_SPELLED = (
    *(word for name in NAMES[:4] for word in (name, name.upper(), name.lower())),
    *(word for name in (*NAMES[4:], *NUMBERS) for word in (name, name.lower())),
)
_WORD = "|".join(sorted(_SPELLED, key=len, reverse=True))
_PIECE = re.compile(rf'(?P<bare>FM)?(?P<word>{_WORD})|"(?P<quoted>[^"\\]*)"|(?P<sign>[-/:.,;_ ]+)')
_LONGER = re.compile(r"SSSS|IDDD|YYYYY|,YYY|\.M\.", re.IGNORECASE)
_LETTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of the format as it is spelled, `bare` where it is not filled up; or a text that stands for itself."""

    word: str = ""
    bare: bool = False
    text: str = ""


@lru_cache(maxsize=1024)
def pieces(format: str) -> tuple[Piece, ...] | None:
    found, place = list[Piece](), 0
    if not format or len(format) > _LETTERS_MAX or _LONGER.search(format):
        return None
    while place < len(format):
        piece = _PIECE.match(format, place)
        if piece is None:
            return None
        found.append(Piece(piece["word"] or "", piece["bare"] is not None, piece["quoted"] or piece["sign"] or ""))
        place = piece.end()
    return tuple(found)
