"""Queries that came just after a start, before it was noticed that their tables were replaced while nobody looked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.pipeline.activation.captured_tables import CapturedTables
from headwater.pipeline.records.control import Schema
from headwater.pipeline.subscriptions import Subscriptions
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


@pytest.mark.parametrize("sql", QUERIES[:2])
def test_a_table_that_begins_anew_before_a_subscription_is_logged_closes_nobody(
    tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL, a partition was truncated just then: "subscribe again", it was told, and nobody did."""
    works = Works(tmp_path)
    works.write(TABLE, "INSERT INTO t VALUES (1, 1)")
    tables, begin = works.pipeline._tables, Subscriptions._log_begun

    def raced(*args: Any) -> None:
        monkeypatch.undo()
        with works.pipeline.capture.lock:
            tables._end(Schema("t", None, "its changes were lost", lost=True))
        begin(*args)

    monkeypatch.setattr(Subscriptions, "_log_begun", raced)
    works.subscribe(sql)
    works.run()
    works.check()
    works.write("INSERT INTO t VALUES (2, 2)")
    works.run()
    works.check()
    works.close()


def test_a_table_that_begins_anew_while_it_is_captured_closes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked for in the catalog once more: a KeyError, and its live queries were stale for good."""
    works = Works(tmp_path)
    works.write(TABLE, "INSERT INTO t VALUES (1, 1)")
    works.subscribe(QUERIES[0])
    works.run()
    register = CapturedTables._register

    def raced(tables: CapturedTables, *args: Any, **options: Any) -> None:
        monkeypatch.undo()
        register(tables, *args, **options)
        with works.pipeline.capture.lock:
            tables._end(Schema("t", None, "its changes were lost", lost=True))

    monkeypatch.setattr(CapturedTables, "_register", raced)
    with works.pipeline.capture.lock:
        works.pipeline._tables._end(Schema("t", None, "its changes were lost", lost=True))
    works.run()
    works.check()
    works.close()
