"""Compound queries that SQLite answers wrongly: followed only as SQLite answers them."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import plan

P = Table("p", (Column("id", Type.INTEGER, "INTEGER", nullable=False), Column("i", Type.INTEGER, "INTEGER")), ("id",))
LOSING = "SELECT i FROM p EXCEPT SELECT 9 UNION ALL SELECT DISTINCT i FROM p"


def test_where_sqlite_loses_equal_rows_as_it_sorts_it_is_the_one_who_answers() -> None:
    """We kept both rows; SQLite, asked with ORDER BY 1 COLLATE …, has one of them."""
    memory = sqlite3.connect(":memory:")
    memory.executescript("CREATE TABLE p (id INTEGER PRIMARY KEY, i INTEGER); INSERT INTO p VALUES (1, 1)")
    assert memory.execute(LOSING).fetchall() == memory.execute(f"{LOSING} ORDER BY 1").fetchall() == [(1,), (1,)]
    memory.close()
    with pytest.raises(UnsupportedQuery, match="after another set operation"):
        plan(f"{LOSING} ORDER BY 1 COLLATE NOCASE", [P])
    assert plan(f"{LOSING} ORDER BY 1", [P]).template.relation is not None
