"""Queries that came just after a start, before it was noticed that their tables were replaced while nobody looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.byhand import Works

QUERIES = (
    "SELECT id, n FROM t",
    "SELECT n, count(*) AS c FROM t GROUP BY n",
    "SELECT id, json_quote(n) AS q FROM t",
    "SELECT id, n, rank() OVER (ORDER BY n) AS r FROM t",
)
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"


@pytest.mark.parametrize("sql", QUERIES)
def test_a_window_that_an_earlier_life_left_ends_for_nobody_who_came_since(tmp_path: Path, sql: str) -> None:
    """Its end, which was logged before they came, was taken for theirs: they were closed once, with a right result."""
    works = Works(tmp_path)
    works.write(TABLE, "INSERT INTO t VALUES (1, 1)")
    works.subscribe(sql)
    works.run()
    works.crash()
    works.watched.clear()
    works.write("DROP TABLE t", TABLE, "INSERT INTO t VALUES (7, 7)")
    works.resume()
    works.subscribe(sql)
    works.run()
    works.run()
    works.check()
    works.write("INSERT INTO t VALUES (8, 8)")
    works.run()
    works.check()
    works.close()
