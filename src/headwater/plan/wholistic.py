"""The floor under everything: any query the origin can run, asked again whenever something it reads has changed.

What it reads is the origin's word. Whatever depends on more than the tables is refused: it would never be current.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.model.errors import UnsupportedQuery
from headwater.model.value import Row
from headwater.plan.fingerprint import instance_id, template_id
from headwater.sql.functions import CLOCKS, VOLATILE

_NOW = re.compile(r"'\s*now\s*'|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)|\bcurrent_(?:date|time)", re.I)
_LONELY_FORMAT = re.compile(r"\bstrftime\s*\(\s*'[^']*'\s*\)", re.I)


@dataclass(frozen=True, slots=True)
class Requeried:
    """`mask` tells for each table which columns count; rows that come or go always do. `why` it is not incremental."""

    template: str
    instance: int
    sql: str
    values: Row
    keywords: tuple[str, ...]
    names: tuple[str, ...]
    ordered: bool
    mask: Mapping[str, frozenset[str]]
    why: str

    @property
    def params(self) -> Any:
        """As the origin's driver takes them: by name, or in order."""
        return dict(zip(self.keywords, self.values, strict=True)) if self.keywords else self.values


def requeried(
    sql: str,
    params: Sequence[Any] | Mapping[str, Any],
    names: tuple[str, ...],
    mask: Mapping[str, frozenset[str]],
    functions: Collection[str],
    why: str,
) -> Requeried:
    _refuse_volatile(sql, params, functions)
    keywords = tuple(sorted(params)) if isinstance(params, Mapping) else ()
    values = tuple(params[name] for name in keywords) if isinstance(params, Mapping) else tuple(params)
    template = template_id("", sql)
    instance = instance_id(template, (*keywords, *values), None, 0)
    return Requeried(template, instance, sql, values, keywords, names, has_order(sql), mask, why)


def _refuse_volatile(sql: str, params: Sequence[Any] | Mapping[str, Any], functions: Collection[str]) -> None:
    given = params.values() if isinstance(params, Mapping) else params
    now = _NOW.search(sql) or _LONELY_FORMAT.search(sql) or any(str(value).strip().lower() == "now" for value in given)
    found = sorted(name for name in functions if name in VOLATILE and (name not in CLOCKS or now))
    if found:
        at = re.search(rf"\b{re.escape(found[0])}\b", sql, re.I)
        raise UnsupportedQuery(
            f"{found[0]} changes without any change in the database",
            sql=sql,
            at=at.span() if at else None,
            hint="compute it in the application and pass it as a parameter",
        )


def has_order(sql: str) -> bool:
    """Whether ORDER BY stands outside all parentheses, quotes and comments."""
    depth = 0
    for found in _TOKENS.finditer(sql):
        text = found[0]
        depth += text == "("
        depth -= text == ")"
        if depth == 0 and text[:1] in "oO":
            return True
    return False


_TOKENS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[()]|\border\s+by\b""", re.I | re.S
)


def touches(
    mask: Mapping[str, frozenset[str]], table: str, names: Sequence[str], old: Row | None, new: Row | None
) -> bool:
    """Whether a change of a row may change the answer."""
    columns = mask.get(table)
    if columns is None:
        return False
    if old is None or new is None:
        return True
    return any(
        name in columns and (a is not b and (type(a) is not type(b) or a != b))
        for name, a, b in zip(names, old, new, strict=True)
    )
