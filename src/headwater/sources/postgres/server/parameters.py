"""Parameters in SQL for PostgreSQL: `$1` by place, `:name` by name. Pure; it reads quotes and comments, no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from headwater.model.errors import SqlError
from headwater.model.value import Value
from headwater.sources.source import Params

_TOKEN = re.compile(
    r"""
    [eE]'(?:[^'\\]|\\.|'')*'        # a string with escapes
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$
    | --[^\n]*
    | /\*.*?\*/
    | ::                            # a cast
    | (?<!\w)\$(?P<place>\d+)
    | (?<![\w:\]]):(?P<name>[A-Za-z_]\w*)
    """,
    re.X | re.S,
)


def bound(sql: str, params: Params) -> tuple[str, tuple[Value, ...]]:
    """The SQL with `$1, $2, …` alone, and their values."""
    if not isinstance(params, Mapping):
        return sql, tuple(params)
    names: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        name = found["name"]
        if not name:
            return found[0]
        if name not in params:
            raise SqlError(f"no value was given for :{name}", sql=sql, at=found.span())
        return f"${names.setdefault(name, len(names) + 1)}"

    text = _TOKEN.sub(place, sql)
    return text, tuple(params[name] for name in names)


def with_nulls(sql: str, types: Sequence[str]) -> str:
    """The SQL with a NULL of its type in place of each parameter."""
    return replaced(sql, lambda number: f"(NULL::{types[number - 1]})")


def replaced(sql: str, value: Callable[[int], str]) -> str:
    return _TOKEN.sub(lambda found: value(int(found["place"])) if found["place"] else found[0], sql)


def literals_of(sql: str) -> list[str]:
    """The quoted strings in it."""
    return [found[0] for found in _TOKEN.finditer(sql) if found[0].endswith("'")]
