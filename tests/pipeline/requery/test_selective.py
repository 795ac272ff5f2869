"""Queries that the origin is asked for by the keys of what changed: right at every answered position, while others
write, after a restart and a kill, and with work that follows the change."""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import headwater
from headwater.model.emission import Diff, Emission
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, Params
from headwater.sources.sqlite.memory import MemoryMoment
from headwater.sources.sqlite.questions.moment import SqliteMoment
from headwater.sources.sqlite.source import SqliteSource
from tests.fuzz.postgres.oracle import Journal, journal, repeat, watch
from tests.fuzz.postgres.writers import Connection, run
from tests.pipeline.test_faults import kill_server, open_position
from tests.support.answered import Answers, Query, check_answers, settled
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually, served

QUERIES = (
    Query(
        "SELECT id, json_array(status, note) AS told, total FROM orders WHERE json_valid(note) = 0 OR customer > ?",
        (3,),
    ),
    Query("SELECT o.id, p.email, json_quote(p.age) AS age FROM orders o JOIN people p ON p.id = o.customer"),
    Query("SELECT p.id, q.email AS boss, json_quote(p.age) AS age FROM people p LEFT JOIN people q ON q.id = p.boss"),
    Query(
        "SELECT o.id, s.site, s.amount, date('2020-01-01', '+' || s.amount || ' days') AS day FROM orders o "
        "FULL JOIN stock s ON s.sku = o.customer WHERE o.id IS NULL OR s.site <> 'a'"
    ),
    Query(
        "SELECT p.id, json_array(o.id) AS o FROM people p LEFT JOIN orders o "
        "ON o.customer = p.id AND json_valid(o.note) = 0 WHERE o.id IS NULL"
    ),
    Query("SELECT id, json_quote(note) AS note, status FROM orders ORDER BY status DESC, 2 NULLS LAST", (), "id"),
    Query(
        "SELECT o.id, p.email, json_quote(p.age) AS years FROM orders o LEFT JOIN people p ON p.id = o.customer "
        "ORDER BY email, p.age DESC, o.total * ?",
        (-1,),
        "o.id, p.id",
    ),
)
SCHEMA = (
    "CREATE TABLE parents (id int PRIMARY KEY, name text, level smallint, ok bool)",
    "CREATE TABLE children (id bigint PRIMARY KEY, parent int, n int, f float8, note varchar(8))",
)
_NOTE = "INSERT INTO journal (xid, statement) VALUES (pg_current_xact_id()::text::int8, %s)"
POSTGRES = (
    "SELECT p.id, quote_ident(p.name) AS q, p.level FROM parents p WHERE quote_literal(p.name) <> '''bo'''",
    "SELECT p.id, c.id AS child, quote_ident(c.note) AS q, c.f FROM parents p JOIN children c ON c.parent = p.id",
    "SELECT p.id, c.id AS child, to_hex(c.n) AS h FROM parents p LEFT JOIN children c ON c.parent = p.id AND c.n > 0",
    "SELECT p.id, c.id AS child, to_hex(c.n) AS h FROM parents p RIGHT JOIN children c ON p.id = c.parent WHERE n > 0",
    "SELECT p.name, c.id AS child, to_hex(c.n) AS h FROM parents p FULL JOIN children c ON c.parent = p.id",
    "SELECT p.id, quote_ident(p.name) AS q FROM parents p LEFT JOIN children c ON c.parent = p.id AND c.n > 1 "
    "WHERE c.id IS NULL",
    "SELECT c.id, quote_ident(c.note) AS q FROM children c WHERE c.parent IN (SELECT p.id FROM parents p WHERE p.ok)",
)
ORDERED = {  # with the keys that break its ties
    'SELECT p.id, to_hex(p.id) AS h FROM parents p ORDER BY name COLLATE "C" DESC, level': "p.id",
    "SELECT c.id, quote_ident(c.note) AS q, c.f FROM children c LEFT JOIN parents p ON p.id = c.parent "
    "ORDER BY f DESC, p.ok NULLS FIRST, 1 - c.n": "c.id, p.id",
    "SELECT p.id, c.id AS child, to_hex(c.n) AS h FROM parents p FULL JOIN children c ON c.parent = p.id "
    "ORDER BY quote_ident(p.name)::bytea, c.n": "p.id, c.id",
}


@pytest.mark.slow
def test_at_every_answered_position_the_rows_are_the_origins(tmp_path: Path) -> None:
    assert check_answers(tmp_path, "selective", QUERIES) > 40, "too few answers to prove much"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_on_postgresql_too_while_four_connections_write(version: str, servers: Servers, tmp_path: Path) -> None:
    """The oracle repeats the journal in the order of the commits, and is asked wherever a query was answered."""
    server = servers[version]
    with server.database() as database, server.database() as scratch:
        with server.connect(database) as db:
            run(db, SCHEMA)
            watch(db)
        commits: dict[int, int] = {}
        with headwater.connect(server.url(database), runner="inline", data_dir=tmp_path) as live:
            marker = live.query("SELECT id, xid FROM journal", live=True)
            marker.listen(lambda emission: commits.update(committed(emission)))
            answers = [Answers(live.query(sql, live=True)) for sql in (*POSTGRES, *ORDERED)]
            assert {one.live.strategy for one in answers} == {"selective"}
            for round in itertools.count():
                write_journalled(server.url(database), round)
                end = live.position()
                assert marker.wait(end)
                if settled(end, answers) > 50 and round >= 3:
                    break
        with server.connect(database) as db, server.connect(scratch) as oracle:
            run(oracle, SCHEMA)
            checked = checked_answers(oracle, journal(db), commits, answers, end)
    assert checked > 40, "too few answers to prove much"


def committed(emission: Emission | None) -> dict[int, int]:
    changes = getattr(emission, "changes", ())
    return {int(change.new["xid"]): emission.position for change in changes if change.new}  # type: ignore[union-attr]


def write_journalled(url: str, round: int) -> None:
    threads = [threading.Thread(target=_transact, args=(url, 4 * round + number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _transact(url: str, seed: int) -> None:
    chance = random.Random(seed)
    with psycopg.connect(url) as db:
        for _ in range(20):
            with contextlib.suppress(psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                for _ in range(chance.choice((1, 2, 5))):
                    statement = _statement(chance)
                    if db.execute(statement.encode()).rowcount:
                        db.execute(_NOTE, (statement,))
                db.commit() if chance.random() < 0.9 else db.rollback()
            db.rollback()


def _statement(chance: random.Random) -> str:
    """By key: what it does follows from the row it locks, so in the order of the commits it is the same."""
    id, number = chance.randrange(14), chance.choice(("NULL", *map(str, range(8))))
    text = chance.choice(("NULL", "'ann'", "'Bob'", "'bo'", "'a b'"))
    return chance.choice(
        (
            f"INSERT INTO parents VALUES ({id}, {text}, {number}, {number} > 3) ON CONFLICT DO NOTHING",
            f"INSERT INTO children VALUES ({id}, {number}, {number}, 'NaN', {text}) ON CONFLICT DO NOTHING",
            f"UPDATE parents SET name = {text}, ok = NOT ok WHERE id = {id}",
            f"UPDATE children SET note = {text}, n = n + 1 WHERE id = {id}",
            f"UPDATE children SET parent = {number}, f = 1.5 WHERE id = {id}",
            f"UPDATE parents SET id = id + 14 WHERE id = {id}",
            f"DELETE FROM parents WHERE id = {id + 14 * chance.randrange(2)}",
            f"DELETE FROM children WHERE id = {id}",
        )
    )


def checked_answers(
    oracle: Connection, commits: Journal, positions: dict[int, int], answers: list[Answers], end: int
) -> int:
    checked, order = 0, list(commits)
    for xid, after in zip(order, [*order[1:], None], strict=True):
        repeat(oracle, commits[xid])
        until = positions[after] if after is not None else end + 1
        for one in answers:
            sql = one.live.sql
            shown = [rows for position, rows in one.rows.items() if positions[xid] <= position < until]
            wanted = _wanted(oracle, sql) if shown else []
            for rows in shown:
                found = [repr(tuple(row.values())) for row in rows]
                assert (found if sql in ORDERED else sorted(found)) == wanted, (xid, sql, one.live.strategy)
                checked += 1
    return checked


def _wanted(oracle: Connection, sql: str) -> list[str]:
    ties = ORDERED.get(sql)
    found = [repr(row) for row in oracle.execute((f"{sql}, {ties}" if ties else sql).encode(), prepare=False)]
    return found if ties else sorted(found)


class Counted:
    """What the origin was asked for: each statement, and how many rows came of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: list[int] = []
        self.wholes: list[int] = []
        query, part = SqliteSource.query, SqliteMoment.query

        def whole(
            source: SqliteSource, sql: str, params: Params = (), cancellation: Cancellation | None = None
        ) -> Answer:
            answer = query(source, sql, params, cancellation)
            self.wholes.append(len(answer.rows))
            return answer

        def some(
            moment: SqliteMoment, sql: str, params: Params = (), cancellation: Cancellation | None = None
        ) -> Answer | None:
            answer = part(moment, sql, params, cancellation)
            self.parts.append(len(answer.rows) if answer is not None else 0)
            return answer

        monkeypatch.setattr(SqliteSource, "query", whole)
        monkeypatch.setattr(SqliteMoment, "query", some)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[headwater.Database]:
    path = tmp_path / "t.db"
    with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as opened:
        opened.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, c INTEGER, t TEXT, other INTEGER)")
        opened.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT)")
        opened.executemany("INSERT INTO c VALUES (?, ?)", [(n, f"c{n}") for n in range(20)])
        rows = [(n, n % 25, f"2024-01-{n % 28 + 1:02}", 0) for n in range(2000)]
        opened.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", rows)
        yield opened


SQL = "SELECT o.id, c.name, strftime('%d', o.t) AS day FROM o LEFT JOIN c ON c.id = o.c"


@pytest.mark.parametrize("order", ["", " ORDER BY day, c.name DESC"])
def test_work_follows_the_rows_that_changed(
    db: headwater.Database, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    live = db.query(SQL + order, live=True)
    assert (live.strategy, len(live.rows)) == ("selective", 2000)
    counted = Counted(monkeypatch)
    steps = (
        ("UPDATE o SET t = '2024-02-02' WHERE id IN (5, 6)", 2),
        ("UPDATE o SET other = 1 WHERE id = 7", 0),  # it is not asked for
        ("UPDATE c SET name = 'C' WHERE id = 3", 80),
        ("DELETE FROM c WHERE id = 3", 80),
        ("INSERT INTO c VALUES (24, 'new')", 80),
        ("DELETE FROM o WHERE id = 24", 0),
        ("UPDATE o SET id = 5000 WHERE id = 1", 1),
    )
    for statement, found in steps:
        before = sum(counted.parts)
        assert live.wait(db.execute(statement))
        assert sum(counted.parts) - before == found, statement
    assert not counted.wholes
    db.verify(live)


def test_too_many_keys_and_tables_of_inner_queries_are_asked_whole(
    db: headwater.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = db.query(SQL, live=True)
    inner = db.query("SELECT id, date(t) AS d FROM o WHERE c IN (SELECT id FROM c WHERE name > 'c1')", live=True)
    assert inner.strategy == live.strategy == "selective"
    counted = Counted(monkeypatch)
    assert live.wait(db.execute("UPDATE o SET t = '2024-03-03' WHERE id < 1500"))
    assert inner.wait(db.position()) and sorted(counted.wholes)[-1] == 2000
    db.verify(live)
    db.verify(inner)
    before = len(counted.wholes)
    assert inner.wait(db.execute("UPDATE c SET name = 'x' WHERE id = 0"))
    assert len(counted.wholes) > before
    db.verify(inner)


def test_what_is_told_is_the_change_of_the_row(db: headwater.Database) -> None:
    """Found and lost partners, and other values: one update each, of one row."""
    live = db.query(f"{SQL} WHERE o.id = 3 AND date(o.t) IS NOT NULL", live=True)
    told: list[Emission | None] = []
    live.listen(told.append)
    for statement in (
        "UPDATE c SET name = 'x' WHERE id = 3",
        "DELETE FROM c WHERE id = 3",
        "INSERT INTO c VALUES (3, 'y')",
    ):
        assert live.wait(db.execute(statement))
    diffs = [one for one in told if isinstance(one, Diff)]
    assert [[change.type for change in diff.changes] for diff in diffs] == [["update"]] * 3
    hashes = [(diff.changes[0].old_hash, diff.changes[0].new_hash) for diff in diffs]
    assert hashes[0][0] == hashes[0][1] == hashes[1][0] == hashes[2][1] and hashes[1][1] == hashes[2][0]
    assert [row["name"] for row in live.rows] == ["y"]


@pytest.mark.parametrize("order", ["", " ORDER BY day DESC, o.id"])
def test_a_row_with_another_key_is_the_same_row(db: headwater.Database, order: str) -> None:
    live = db.query(f"{SQL} WHERE o.id % 500 = 3{order}", live=True)
    told: list[Emission | None] = []
    before = dict(zip((row["id"] for row in live.rows), live.hashes, strict=True))
    live.listen(told.append)
    assert live.wait(db.execute("UPDATE o SET id = 2503 WHERE id = 503"))
    (diff,) = (one for one in told if isinstance(one, Diff))
    (change,) = diff.changes
    after = dict(zip((row["id"] for row in live.rows), live.hashes, strict=True))
    assert (change.type, change.old_hash, change.new_hash) == ("update", before[503], after[2503])
    assert change.new is not None and change.new["id"] == 2503
    db.verify(live)


def test_equal_queries_share_a_window_and_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    sql = "SELECT id, date(t) AS d FROM o WHERE id > ?"
    for round in range(3):
        with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
            db.execute("CREATE TABLE IF NOT EXISTS o (id INTEGER PRIMARY KEY, t TEXT)")
            one, two = db.query(sql, 0, live=True), db.query(sql, 0, live=True)
            assert one.strategy == "selective" and db.status()["windows"] == 1
            position = db.execute("INSERT INTO o (t) VALUES ('2024-01-01')")
            assert one.wait(position) and two.wait(position)
            assert [row["id"] for row in one.rows] == [row["id"] for row in two.rows] == list(range(1, round + 2))


def test_a_moment_that_passes_is_asked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database in memory is not held still: somebody writes between the question and its answer."""
    with headwater.connect("memory://moments", runner="inline") as db:
        db.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, t TEXT)")
        live = db.query("SELECT id, date(t) AS d FROM o", live=True)
        query = MemoryMoment.query

        def interrupted(
            moment: MemoryMoment, sql: str, params: Params = (), cancellation: Cancellation | None = None
        ) -> Answer | None:
            moment.source.execute("INSERT INTO o (t) VALUES ('2024-01-02')")
            monkeypatch.setattr(MemoryMoment, "query", query)
            return query(moment, sql, params, cancellation)

        monkeypatch.setattr(MemoryMoment, "query", interrupted)
        assert live.wait(db.execute("INSERT INTO o VALUES (1, '2024-01-01')"))
        assert live.wait(db.position()) and len(live.rows) == 2


def test_columns_that_come_and_go_end_what_shows_them_all(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
        db.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, t TEXT)")
        every, some = (db.query(f"SELECT {what}, date(t) AS d FROM o", live=True) for what in ("*", "id"))
        assert every.strategy == some.strategy == "selective"
        db.execute("ALTER TABLE o ADD COLUMN n INTEGER")
        assert some.wait(db.execute("INSERT INTO o VALUES (1, '2024-01-01', 1)"))
        assert some.rows == [{"id": 1, "d": "2024-01-01"}]
        eventually(lambda: every.state == "closed")
        assert "columns or keys of its tables changed" in (every.reason or "")


@pytest.mark.slow
def test_killed_and_started_again_it_misses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as seeded:
        seeded.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, c INTEGER, t TEXT)")
        seeded.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT)")
        seeded.executemany("INSERT INTO o VALUES (?, ?, '2024-01-01')", [(n, n % 9) for n in range(200)])
    seeded.close()
    with served(path, tmp_path / "data", runner="inline") as server, headwater.connect(server.url) as db:
        live = db.query(f"{SQL} ORDER BY day DESC, c.name", live=True)
        assert live.strategy == "selective"
        for round in range(4):
            with sqlite3.connect(path) as elsewhere:
                elsewhere.execute("INSERT OR REPLACE INTO c VALUES (?, ?)", (round * 2, f"c{round}"))
                elsewhere.execute("UPDATE o SET t = ? WHERE id % 7 = ?", (f"2024-05-0{round + 1}", round))
                elsewhere.execute("UPDATE o SET id = ? WHERE id = ?", (1000 - round, 50 * round))
                expected = [*elsewhere.execute(f"{SQL} ORDER BY day DESC, c.name, o.id")]
            elsewhere.close()
            kill_server(server)
            position = open_position(path)
            eventually(lambda: live.state == "ready" and live.position >= position)  # noqa: B023 - used at once
            assert [tuple(row.values()) for row in live.rows] == expected
