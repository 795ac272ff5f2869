"""Texts cast to other types as PostgreSQL reads them, and what it says of those that it cannot read. Pure.

Numbers in other bases and with underscores, which PostgreSQL 16 reads and 15 does not, are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from headwater.dialects.postgres.literals.temporal import uuid_of
from headwater.sql.evaluation import EvaluationError

_BITS = {"int2": 15, "int4": 31, "int8": 63}
_TITLES = {"int2": "smallint", "int4": "integer", "int8": "bigint"}
_BLANKS = " \t\n\v\f\r"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ENDLESS = re.compile(r"[+-]?(inf(inity)?)|nan", re.ASCII | re.IGNORECASE)
_TRUTHS = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}


def _unread(title: str, text: str) -> EvaluationError:
    return EvaluationError(f'invalid input syntax for type {title}: "{text}"')


def _integer(kind: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.strip(_BLANKS)
        if not _INTEGER.fullmatch(digits):
            raise _unread(_TITLES[kind], text)
        value = int(digits) if len(digits.lstrip("+-0")) < 20 else 1 << 64
        if not -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
            raise EvaluationError(f'value "{text}" is out of range for type {_TITLES[kind]}')
        return value

    return read


def _real(text: str) -> float:
    digits = text.strip(_BLANKS)
    if _ENDLESS.fullmatch(digits):
        return float(digits)
    if not _FLOAT.fullmatch(digits):
        raise _unread("double precision", text)
    value = float(digits)
    if math.isinf(value) or (value == 0 and re.search("[1-9]", re.split("[eE]", digits)[0])):
        raise EvaluationError(f'"{digits}" is out of range for type double precision')
    return value


def _truth(text: str) -> bool:
    known = _TRUTHS.get(text.strip(_BLANKS).lower())
    if known is None:
        raise _unread("boolean", text)
    return known


def _uuid(text: str) -> str:
    known = uuid_of(text)
    if known is None:
        raise _unread("uuid", text)
    return known


READ: dict[str, Callable[[str], Any]] = {
    **{kind: _integer(kind) for kind in _BITS},
    "float8": _real,
    "bool": _truth,
    "uuid": _uuid,
}
