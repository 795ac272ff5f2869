"""Random queries, altered here and there: SQLite and we agree on which are right, and on what they answer."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from headwater.dialects.bind import bind
from headwater.model.errors import SqlError, UnsupportedQuery
from tests.sql.queries import World, world
from tests.sql.test_relations import check
from tests.sql.written import FUZZ

_COLUMN = r"\bt?\w\d*\.\w+\b"
_WRAPS = (
    *("({0} COLLATE NOCASE)", "CAST({0} AS TEXT)", "CAST({0} AS INT)", "(+{0})"),
    *("lower({0})", "({0} || '')", "coalesce({0}, 1)", "(- {0})"),
)
_ALTERATIONS: tuple[tuple[str, Sequence[str]], ...] = (
    (_COLUMN, ()),
    (_COLUMN, _WRAPS),
    (r" (LEFT|RIGHT|FULL|CROSS)? ?JOIN ", (" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN ")),
    (r" (=|<|>=|<>|IS) ", (" = ", " < ", " IS ", " >= ", " || ", " + ", " <> ")),
    (r" (AND|OR) ", (" AND ", " OR ")),
    (r"\b(max|min|sum|count|avg|total)\((?!\*)", ("max(", "min(", "sum(", "count(", "avg(", "count(DISTINCT ")),
)

pytestmark = pytest.mark.slow


def altered(random: Random, sql: str) -> str:
    """Another column, or one wrapped in an expression; another join, comparison, connective or aggregate."""
    for _ in range(random.choice((1, 2, 3))):
        pattern, choices = random.choice(_ALTERATIONS)
        places = list(re.finditer(pattern, sql))
        if places:
            place = random.choice(places)
            other = random.choice(choices or [found.group() for found in places])
            sql = sql[: place.start()] + other.format(place.group()) + sql[place.end() :]
    return sql


def _runs(each: World) -> bool:
    try:
        each.filled().execute(each.sql).fetchall()
    except sqlite3.Error:
        return False
    return True


def _verdict(each: World) -> type[SqlError] | None:
    try:
        bind(each.sql, each.tables)
    except SqlError as error:
        return type(error)
    return None


def test_sqlite_agrees_on_altered_queries() -> None:
    random = Random(11)
    for seed in range(300 * FUZZ):
        each = world(seed)
        each = replace(each, sql=altered(random, each.sql))
        verdict, runs = _verdict(each), _runs(each)
        assert verdict is UnsupportedQuery or runs == (verdict is None), f"seed {seed}: {each.sql}"
        if verdict is None:
            check(each)
