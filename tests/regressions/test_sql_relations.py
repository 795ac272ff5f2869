"""Queries over relations that once were bound wrongly, or not to the same template a second time."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from headwater.dialects.bind import bind
from headwater.plan.planner import effective_sql, plan, template_from_sql
from tests.sql.evaluator import rows_of
from tests.sql.test_golden import SCRIPT, TABLES

CASES = (
    "SELECT a FROM pairs x RIGHT JOIN (SELECT a + 1 AS a FROM pairs) USING (a)",
    "SELECT * FROM pairs x FULL JOIN (SELECT a + 1 AS a, b AS c FROM pairs) y USING (a)",
    "SELECT o.id, status = 'x' AND total > 1 AS good FROM orders o JOIN pairs p ON p.a = o.id WHERE good",
    "SELECT DISTINCT user_id AS a, user_id AS b FROM orders ORDER BY 1, 2",
    "SELECT user_id, group_concat(name COLLATE NOCASE, '-') AS names FROM orders GROUP BY 1",
)


@pytest.mark.parametrize("sql", CASES)
def test_once_wrong(sql: str) -> None:
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    planned = plan(sql, TABLES)
    tables = {table.name: (table.names, memory.execute(f"SELECT * FROM {table.name}").fetchall()) for table in TABLES}
    written, effective = memory.execute(sql), memory.execute(effective_sql(planned.template, planned.instance))
    assert [column[0] for column in written.description] == [column[0] for column in effective.description]
    assert Counter(written) == Counter(effective) == Counter(rows_of(bind(sql, TABLES), tables))
    assert template_from_sql(planned.template.sql, TABLES) == planned.template
