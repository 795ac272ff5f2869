"""Instances of one re-queried template share their questions: those that a change concerns are asked for as one, the
others not at all. Questions are counted where they leave us: at the socket to a process of SQLite, or to PostgreSQL."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.sources.cancellation import Cancellation
from headwater.sources.postgres.server import connections
from headwater.sources.postgres.snapshots import Snapshots
from headwater.sources.sqlite.questions.pool import QuestionProcess
from tests.support.postgres import VERSIONS, Servers

RANK = "SELECT id, rank() OVER (ORDER BY v, id) AS place FROM t WHERE s = {}"


@dataclass(slots=True)
class Sent:
    """The values of each question that was sent, and what else the database was asked to read."""

    questions: list[list[Any]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.questions.clear()
        self.others.clear()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Questions to SQLite."""
    found, ask = Sent(), QuestionProcess.ask

    def noted(
        self: QuestionProcess, cancellation: Cancellation, what: str, sql: str = "", params: Any = ()
    ) -> Iterator[Any]:
        if what in ("ask", "ask together"):
            found.questions.append([list(one[1]) for one in params] if what == "ask together" else [list(params)])
        else:
            found.others.append(what)
        return ask(self, cancellation, what, sql, params)

    monkeypatch.setattr(QuestionProcess, "ask", noted)
    return found


@pytest.fixture
def sent_to_postgres(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """A question is a transaction of a session for questions, with the statements that are sent in it. One that gets no
    place in the stream is not counted: it is sent again."""
    found, results, reading, mine = Sent(), connections._results, Snapshots._try_queries, threading.local()

    def began(self: Any, *given: Any) -> Any:
        mine.statements = list[Any]()
        answers = reading(self, *given)
        if answers is not None:
            found.questions.append(mine.statements)
        return answers

    def noted(db: Any, sql: str, params: Any) -> Any:
        mine.statements.append(list(params))
        return results(db, sql, params)

    monkeypatch.setattr(Snapshots, "_try_queries", began)
    monkeypatch.setattr(connections, "_results", noted)
    return found


@contextlib.contextmanager
def shop(here: Path, column: str = "s INTEGER") -> Iterator[headwater.Database]:
    with headwater.connect(f"sqlite:///{here / 't.db'}", runner="inline", data_dir=here / "data") as db:
        db.execute(f"CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, {column}, v INTEGER)")
        yield db


def settled(lives: list[headwater.LiveResult], position: int) -> None:
    assert all(live.wait(position) for live in lives)


def check_shared(db: headwater.Database, sent: Sent, text: str, count: int) -> None:
    """Bar 4 of issue 12, literally."""
    lives = [db.query(text, n, live=True) for n in range(count)]
    assert {live.strategy for live in lives} == {"requery"}
    sent.clear()
    settled(lives, db.execute("UPDATE t SET v = v + 100 WHERE id = 7"))
    assert sent.questions == [[[7]]], "a change that concerns one of them is one question, for one value"
    sent.clear()
    settled(lives, db.execute("UPDATE t SET s = 8 WHERE id = 7"))
    assert [sorted(question) for question in sent.questions] == [[[7], [8]]], "the old image and the new one"
    assert [lives[n].rows for n in (7, 9)] == [[], [{"id": 9, "place": 1}]] and len(lives[8].rows) == 2
    sent.clear()
    settled(lives, db.execute("INSERT INTO t VALUES (-1, NULL, 1), (-2, -2, 1)"))
    assert sent.questions == [], "a change that concerns none of them is no question"
    settled(lives, db.execute("UPDATE t SET v = v + 1"))
    assert sum(map(len, sent.questions)) == count - 1, "no row of it has the value 7 any more"
    assert len(sent.questions) <= count / 100 + 4, "a lane may take what is due while the rest is still being put"
    for live in lives[:: count // 10]:
        db.verify(live)


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_of_many_subscribers_a_change_asks_only_for_those_it_concerns(count: int, tmp_path: Path, sent: Sent) -> None:
    with shop(tmp_path) as db:
        db.execute("WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 999) "
                   "INSERT INTO t SELECT x, x, x FROM n")  # fmt: skip
        check_shared(db, sent, RANK.format("?"), count)


@pytest.mark.parametrize("version", VERSIONS)
def test_on_postgres_too(version: str, servers: Servers, tmp_path: Path, sent_to_postgres: Sent) -> None:
    with servers[version].database() as database:
        with servers[version].connect(database) as origin:
            origin.execute("CREATE TABLE t (id integer PRIMARY KEY, s integer, v integer)")
            origin.execute("INSERT INTO t SELECT x, x, x FROM generate_series(0, 999) x")
        with headwater.connect(servers[version].url(database), runner="inline", data_dir=tmp_path) as db:
            check_shared(db, sent_to_postgres, RANK.format("$1"), 1000)


def test_a_further_instance_costs_the_question_for_its_rows_alone(tmp_path: Path, sent: Sent) -> None:
    with shop(tmp_path) as db:
        for n in range(2):
            db.query(RANK.format("?"), n, live=True)
        sent.clear()
        for n in range(2, 20):
            db.query(RANK.format("?"), n, live=True)
        assert sent.others == [] and sum(map(len, sent.questions)) == 18


@pytest.mark.parametrize(
    ("column", "stored", "concerned"),
    [
        ("s INTEGER", "1", [1, "1", "1.0", " 1"]),
        ("s TEXT", "1", [1, "1"]),
        ("s TEXT COLLATE NOCASE", "Ab", ["ab", "AB"]),
        ("s TEXT COLLATE RTRIM", "ab  ", ["ab", "ab "]),
        ("s", "x", ["x"]),
    ],
)
def test_values_are_compared_as_sqlite_does(tmp_path: Path, column: str, stored: str, concerned: list[Any]) -> None:
    with shop(tmp_path, column) as db:
        asked = [*concerned, "other", None, 2, b"1"]
        lives = [db.query(RANK.format("?"), value, live=True) for value in asked]
        settled(lives, db.execute("INSERT INTO t VALUES (1, ?, 1)", stored))
        assert [bool(live.rows) for live in lives] == [value in concerned for value in asked]
        settled(lives, db.execute("UPDATE t SET s = 2"))
        for live in lives:
            db.verify(live)
        assert [bool(live.rows) for live in lives].count(True) == (lives[-2].rows != [])


@pytest.mark.parametrize(
    ("declared", "stored", "concerned"),
    [
        ("text", "ab", ["ab"]),
        ("char(4)", "ab", ["ab", "ab  "]),
        ("citext", "Ab", ["ab", "AB"]),
        ("date", "2024-02-01", ["2024-02-01", "February 1, 2024"]),
    ],
)
def test_values_are_compared_as_postgres_does(
    declared: str, stored: str, concerned: list[Any], servers: Servers, tmp_path: Path
) -> None:
    server = servers[VERSIONS[0]]
    with server.database() as database:
        with server.connect(database) as origin:
            if declared == "citext":
                origin.execute("CREATE EXTENSION citext")
            origin.execute(f"CREATE TABLE t (id integer PRIMARY KEY, s {declared}, v integer)")
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as db:
            asked = [*concerned, "1999-01-01", None]
            lives = [db.query(RANK.format("$1"), value, live=True) for value in asked]
            settled(lives, db.execute("INSERT INTO t VALUES (1, $1, 1)", stored))
            assert [bool(live.rows) for live in lives] == [value in concerned for value in asked]
            settled(lives, db.execute("UPDATE t SET v = 5"))
            settled(lives, db.execute("TRUNCATE t"))
            assert [live.rows for live in lives] == [[]] * len(asked)


def test_selective_instances_are_asked_only_for_their_values(tmp_path: Path, sent: Sent) -> None:
    text = "SELECT id, date(v) AS day FROM t WHERE s = ?"
    with shop(tmp_path) as db:
        lives = [db.query(text, n, live=True) for n in range(20)]
        assert {live.strategy for live in lives} == {"selective"}
        sent.clear()
        settled(lives, db.execute("INSERT INTO t VALUES (1, 3, 2460000)"))
        settled(lives, db.execute("UPDATE t SET s = 4, id = 2"))
        assert sorted(question[0] for question in sent.questions) == [[3], [3], [4]]
        sent.clear()
        settled(lives, db.execute("INSERT INTO t VALUES (3, 77, 2460000)"))
        assert sent.questions == [] and sent.others == []
        for live in lives:
            db.verify(live)


def test_a_change_of_another_table_of_the_query_concerns_all(tmp_path: Path, sent: Sent) -> None:
    text = "SELECT t.id, count(u.id) OVER () AS n FROM t LEFT JOIN u ON u.id = t.id WHERE t.s IN (?, 50)"
    with shop(tmp_path) as db:
        db.execute("CREATE TABLE u (id INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        lives = [db.query(text, n, live=True) for n in range(5)]
        sent.clear()
        settled(lives, db.execute("INSERT INTO u VALUES (1)"))
        assert [len(question) for question in sent.questions] == [5]
        assert lives[1].rows == [{"id": 1, "n": 1}] and lives[2].rows == [{"id": 2, "n": 0}]
        sent.clear()
        settled(lives, db.execute("INSERT INTO t VALUES (9, 50, 1)"))
        assert [len(question) for question in sent.questions] == [5]


def test_other_columns_and_redefined_views_concern_all_and_are_learned_once(tmp_path: Path, sent: Sent) -> None:
    text = "SELECT t.id, count(*) OVER () AS n FROM t JOIN seen ON seen.id = t.id WHERE t.s = ?"
    with shop(tmp_path) as db:
        db.execute("CREATE VIEW seen AS SELECT id FROM t WHERE v > 5")
        db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, 9)")
        through = [db.query(text, n, live=True) for n in range(4)]
        plain = [db.query(RANK.format("?"), n, live=True) for n in range(4)]
        sent.clear()
        settled([*through, *plain], db.execute("UPDATE t SET v = 8 WHERE id = 1"))
        assert sum(map(len, sent.questions)) == 5, "what is seen through a view is not shared"
        sent.clear()
        with contextlib.closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as elsewhere:
            elsewhere.execute("BEGIN")
            elsewhere.execute("DROP VIEW seen")
            elsewhere.execute("CREATE VIEW seen AS SELECT id FROM t WHERE v > 8")
            elsewhere.execute("COMMIT")
        settled([*through, *plain], db.execute("UPDATE t SET v = 7 WHERE id = 1"))
        assert [live.rows for live in through[:3]] == [[], [], [{"id": 2, "n": 1}]]
        assert sent.others.count("describe") == 2, "once for each template"
        for live in (*through, *plain):
            db.verify(live)


def test_one_that_fails_ends_alone(tmp_path: Path) -> None:
    text = "SELECT id, abs(v) AS a, count(*) OVER () AS n FROM t WHERE s = ?"
    with shop(tmp_path) as db:
        lives = [db.query(text, n, live=True) for n in range(4)]
        position = db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, ?), (3, 3, 3)", -(2**63))
        settled([lives[0], lives[1], lives[3]], position)
        assert [lives[n].rows for n in (1, 3)] == [[{"id": 1, "a": 1, "n": 1}], [{"id": 3, "a": 3, "n": 1}]]
        with pytest.raises(headwater.HeadwaterError, match="integer overflow"):
            lives[2].wait(position)


def test_after_a_restart_they_share_again(tmp_path: Path, sent: Sent) -> None:
    for round in range(2):
        with shop(tmp_path) as db:
            lives = [db.query(RANK.format("?"), n, live=True) for n in range(50)]
            settled(lives, db.execute("INSERT INTO t VALUES (?, 3, ?)", round, round))
            sent.clear()
            settled(lives, db.execute("UPDATE t SET v = v + 10 WHERE id = ?", round))
            assert sent.questions == [[[3]]] and len(lives[3].rows) == round + 1


def test_explain_says_which_changes_concern_it(tmp_path: Path) -> None:
    with shop(tmp_path) as db:
        assert "asked again when a row of t where s = :p1 comes or goes" in db.explain(RANK.format("?"), 3)
        assert "asked again when a row of t where s = 3 comes or goes" in db.explain(RANK.format("3"))
