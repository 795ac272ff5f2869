"""A golden file for each rule that rewrites relations: a query, its relation without the rule, and with it.

HEADWATER_GOLDEN=1 writes them anew: then read the diff. Both relations are evaluated, and have to give the rows of
SQLite. A rule that leaves a query as it is has no `before`.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headwater.dialects.bind import bind
from headwater.dialects.sqlite.render import SQLITE_TEXT
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Filter, Relation
from headwater.sql.ir.relation_text import tree
from tests.sql.evaluator import rows_of
from tests.sql.test_golden import SCRIPT, TABLES

GOLDEN = Path(__file__).parent / "golden"


def _above(relation: Relation, conjuncts: Iterable[Expr]) -> Relation:
    return reduce(Filter, conjuncts, relation)


def _whole(relation: Relation, needed: frozenset[str]) -> Relation:
    return relation


SWITCHED_OFF: dict[str, Callable[[], Any]] = {
    "push_down": lambda: patch("headwater.sql.bind.select.placed", _above),
    "prune_columns": lambda: patch("headwater.sql.bind.query.pruned", _whole),
    "decorrelate": nullcontext,  # without it there is no relation: the query is what it was before
}


def _queries(rule: str) -> list[str]:
    lines = (GOLDEN / f"{rule}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith(" ")]


def _bound(rule: str, sql: str) -> tuple[Query, Query]:
    with SWITCHED_OFF[rule]():
        before = bind(sql, TABLES)
    return before, bind(sql, TABLES)


def _told(query: Query) -> list[str]:
    assert query.relation is not None
    return list(tree(query.relation, SQLITE_TEXT))


def _described(rule: str, sql: str) -> str:
    before, after = map(_told, _bound(rule, sql))
    told = [*([] if before == after else ["before", *_indented(before)]), "after", *_indented(after)]
    return "\n".join((sql, *_indented(told)))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@pytest.mark.parametrize("rule", SWITCHED_OFF)
def test_what_a_rule_makes_of_relations(rule: str) -> None:
    found = "\n".join(_described(rule, sql) for sql in _queries(rule)) + "\n"
    if os.environ.get("HEADWATER_GOLDEN"):
        (GOLDEN / f"{rule}.txt").write_text(found)
    assert (GOLDEN / f"{rule}.txt").read_text() == found


@pytest.mark.parametrize(("rule", "sql"), [(rule, sql) for rule in SWITCHED_OFF for sql in _queries(rule)])
def test_a_rule_changes_no_row(rule: str, sql: str) -> None:
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    tables = {table.name: (table.names, memory.execute(f"SELECT * FROM {table.name}").fetchall()) for table in TABLES}
    expected = Counter(map(repr, memory.execute(sql)))
    assert [Counter(map(repr, rows_of(query, tables))) for query in _bound(rule, sql)] == [expected, expected]
