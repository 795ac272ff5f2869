"""Queries that the origin answers: right at every answered position, asked again only when it matters."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import headwater
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, Params
from headwater.sources.sqlite.memory import MemorySource
from tests.support.answered import Query, check_answers
from tests.support.processes import eventually

QUERIES = (
    Query("SELECT id, total, rank() OVER (ORDER BY total DESC, id) AS place FROM orders ORDER BY place LIMIT 10"),
    Query(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < (SELECT count(*) FROM visits)) "
        "SELECT max(x) AS n FROM n"
    ),
    Query("SELECT site, json_group_array(sku) AS skus FROM (SELECT site, sku FROM stock ORDER BY sku) GROUP BY site"),
    Query(
        "SELECT customer, ms, ms - lag(ms) OVER (PARTITION BY customer ORDER BY ms, page) AS step FROM visits "
        "WHERE customer = ?",
        (3,),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["1x1", "2x1"])
def test_at_every_answered_position_the_rows_are_the_origins(cells: str, tmp_path: Path) -> None:
    assert check_answers(tmp_path, "requery", QUERIES, cells) > 40, "too few answers to prove much"


def test_it_is_asked_again_only_when_something_it_reads_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    query = MemorySource.query

    def counted(self: MemorySource, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        asked.append(sql)
        return query(self, sql, params, cancellation)

    monkeypatch.setattr(MemorySource, "query", counted)
    with headwater.connect("memory://masks", runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
        db.execute("CREATE TABLE u (id INTEGER PRIMARY KEY)")
        live = db.query("SELECT a, row_number() OVER (ORDER BY a) AS n FROM t", live=True)
        db.query("SELECT id FROM u", live=True)
        assert live.wait(db.execute("INSERT INTO t VALUES (1, 1, 1)"))
        first = len(asked)
        assert live.wait(db.execute("UPDATE t SET b = 2")) and live.wait(db.execute("INSERT INTO u VALUES (1)"))
        assert len(asked) == first
        assert live.wait(db.execute("UPDATE t SET a = 5")) and len(asked) > first
        assert live.rows == [{"a": 5, "n": 1}]


def test_the_same_question_is_one_window_and_a_dropped_table_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE TABLE u (a INTEGER)")
        sql = "SELECT sum(a) OVER () AS s FROM t"
        one, two = db.query(sql, live=True), db.query(sql, live=True)
        other = db.query("SELECT count(*) OVER () AS n FROM u", live=True)
        assert db.status()["windows"] == 2
        position = db.execute("INSERT INTO t VALUES (3)")
        assert one.wait(position) and two.wait(position) and one.rows == two.rows == [{"s": 3}]
        with sqlite3.connect(path) as elsewhere:
            elsewhere.execute("DROP TABLE t")
        elsewhere.close()
        eventually(lambda: one.state == two.state == "closed")
        assert "t" in (one.reason or "")
        assert other.wait(db.execute("INSERT INTO u VALUES (1)")) and other.rows == [{"n": 1}]


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    sql = "SELECT a, rank() OVER (ORDER BY a) AS r FROM t ORDER BY r"
    for round in range(3):
        with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (a INTEGER)")
            live = db.query(sql, live=True)
            assert live.wait(db.execute("INSERT INTO t VALUES (?)", round))
            assert [row["a"] for row in live.rows] == list(range(round + 1))


def test_a_view_is_live_and_verify_holds(tmp_path: Path) -> None:
    with headwater.connect("memory://views", runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
        db.execute("CREATE VIEW v AS SELECT id, a * 2 AS twice FROM t WHERE a > 1")
        live = db.query("SELECT * FROM v ORDER BY id", live=True)
        assert live.wait(db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")) and live.rows == [{"id": 2, "twice": 4}]
        db.verify(live)
        with pytest.raises(headwater.SqlError, match="no such table: w"):
            db.query("SELECT * FROM w", live=True)


def test_what_the_origin_raises_ends_the_query(tmp_path: Path) -> None:
    with headwater.connect("memory://raises", runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
        live = db.query("SELECT json_extract(a, '$.x') AS x, row_number() OVER () AS n FROM t", live=True)
        assert live.wait(db.execute("""INSERT INTO t VALUES (1, '{"x": 5}')""")) and live.rows == [{"x": 5, "n": 1}]
        db.execute("INSERT INTO t VALUES (2, 'no json')")
        eventually(lambda: live.state == "closed")
        assert "malformed JSON" in (live.reason or "")


def test_a_relation_that_failed_lives_again_once_it_has_an_answer(tmp_path: Path) -> None:
    with headwater.connect("memory://fails", runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
        db.execute("INSERT INTO t VALUES (1, ?)", 2**63 - 1)
        live = db.query("SELECT sum(a) AS s FROM t", live=True)
        db.execute("INSERT INTO t VALUES (2, 1)")
        eventually(lambda: live.state == "stale")
        assert live.reason == "integer overflow"
        assert live.wait(db.execute("DELETE FROM t WHERE id = 2"))
        again = db.query("SELECT sum(a) AS s FROM t", live=True)
        assert again.rows == live.rows == [{"s": 2**63 - 1}]
