"""PostgreSQL as an origin: the smallest cases that once went wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.change import Transaction
from headwater.model.errors import LimitExceeded, SourceError, SqlError
from headwater.sources.postgres.catalog import publication
from headwater.sources.postgres.row_cache.row_cache import rows_of
from headwater.sources.postgres.server.connections import Connection
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.postgres.wire.replication import Received
from headwater.sources.postgres.wire.snapshot_position import PgSnapshot
from headwater.sources.source import ChangesLost, Item, SchemaChange
from tests.sources.replica import Replica, drained
from tests.support.databases import rows
from tests.support.locks import ToldLock
from tests.support.postgres import VERSIONS, Servers


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with servers[request.param].database() as database:
        yield servers[request.param].url(database)


@pytest.fixture
def source(url: str, tmp_path: Path) -> Iterator[PostgresSource]:
    source = PostgresSource(url)
    source.attach(tmp_path)
    yield source
    source.close()


def test_a_partition_without_a_replica_identity_is_not_published(source: PostgresSource, url: str) -> None:
    """The whole has one, its partition has not: the user's UPDATE failed once we had published it."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE p (id int, a text) PARTITION BY RANGE (id)")
        db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
        db.execute("ALTER TABLE p REPLICA IDENTITY FULL")
        db.execute("INSERT INTO p VALUES (1, 'x')")
        with pytest.raises(SourceError, match="'p1' has no replica identity"):
            source.capture("p")
        db.execute("UPDATE p SET a = 'y'")
        db.execute("ALTER TABLE p1 REPLICA IDENTITY FULL")
        source.capture("p")
        db.execute("UPDATE p SET a = 'z'")


@pytest.mark.parametrize(
    ("create", "alter"),
    [
        ("CREATE TABLE t (id int PRIMARY KEY, a text)", "ALTER TABLE t REPLICA IDENTITY NOTHING"),
        (
            "CREATE TABLE t (id int, a text) PARTITION BY LIST (id); ALTER TABLE t REPLICA IDENTITY FULL",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        ),
    ],
)
def test_a_table_that_ended_is_not_published_any_more(
    source: PostgresSource, url: str, create: str, alter: str
) -> None:
    """It had lost its replica identity, and stayed published: the user's updates failed for good."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(create.encode())
        source.capture("t")
        after = source.position()
        db.execute(alter.encode())
        db.execute("INSERT INTO t VALUES (1, 'x')")
        items = source.changes(after, 1)
        while not any(isinstance(item, SchemaChange) for item in items):
            after = max([after, *(item.position for item in items)])
            items = source.changes(after, 1)
        db.execute("UPDATE t SET a = 'y'")


def test_a_look_at_the_catalog_that_is_older_than_what_the_stream_told(source: PostgresSource, url: str) -> None:
    """A column was added between the look and its comparison: it was called dropped, and the table ended."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        source.capture("t")
        after, stream, row_cache = source.position(), source._slot.stream, source._slot.row_cache
        assert stream is not None
        assert row_cache is not None
        source._ddl_poll._found = source._ddl_poll._looked(stream, source._wal.end)
        db.execute("ALTER TABLE t ADD COLUMN a int DEFAULT 3")
        db.execute("INSERT INTO t VALUES (1)")
        (capture,) = row_cache.captures.values()
        assert stream.follow(lambda: row_cache.captures[capture.oid] != capture, 20)
        told = [item for item in drained(source, after) if isinstance(item, SchemaChange)]
        assert [one.after is not None for one in told] == [True]


def test_a_table_that_is_truncated_while_it_is_read_keeps_its_rows(
    source: PostgresSource, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TRUNCATE empties a table also for snapshots that are older: answers were empty, at a position before it."""
    seen = source._snapshots.seen

    def truncating(db: Connection) -> PgSnapshot:
        """Between the snapshot and the reading, somebody tries to."""
        taken = seen(db)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("TRUNCATE t")
        return taken

    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SET lock_timeout = '20ms'")
        other.execute("CREATE TABLE t (id int PRIMARY KEY)")
        other.execute("CREATE VIEW v AS SELECT id FROM t")
        other.execute("INSERT INTO t VALUES (1), (2)")
        source.capture("t")
        monkeypatch.setattr(source._snapshots, "seen", truncating)
        assert source.query("SELECT count(*) AS n FROM v").rows == [(2,)]
        with source.snapshot("t") as snapshot:
            assert [row for batch in snapshot for row in rows_of(batch, snapshot.table)] == [(1,), (2,)]


@pytest.mark.parametrize("count", [1, 300], ids=["rows", "columns"])
def test_a_time_too_far_to_be_held_ends_its_table_and_no_other(source: PostgresSource, url: str, count: int) -> None:
    """It was found when the frame was written, again and again: nothing was captured any more."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
        db.execute("CREATE TABLE other (id int PRIMARY KEY)")
        source.capture("t")
        source.capture("other")
        after = source.position()
        db.execute("INSERT INTO t VALUES (1, 'infinity'), (2, '9999-12-31')")
        with db.transaction():
            db.execute("INSERT INTO other SELECT generate_series(1, %s)", (count,))
            db.execute("INSERT INTO t SELECT 2 + n, '294276-01-01' FROM generate_series(1, %s) n", (count,))
        db.execute("INSERT INTO t VALUES (0, NULL)")
        db.execute("INSERT INTO other VALUES (0)")
        told = drained(source, after)
        first, ended, second, third = (one for one in told if not isinstance(one, Transaction) or one.changes)
        assert isinstance(ended, SchemaChange)
        assert ended.after is None
        assert "294246" in ended.reason
        changed = [one for one in (first, second, third) if isinstance(one, Transaction)]
        assert [{change.table for change in one.changes} for one in changed] == [{"t"}, {"other"}, {"other"}]
        assert [len(one.changes) for one in changed] == [2, count, 1]
        source.forget(third.position)
        with pytest.raises(LimitExceeded, match="294246"):
            source.capture("t")


def test_a_char_loses_its_blanks_when_it_is_made_a_text(url: str, tmp_path: Path) -> None:
    """It kept them: in results, in comparisons, and where ties are ordered by such a key."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (c char(5) PRIMARY KEY, n int)")
        db.execute("INSERT INTO t VALUES ('a', 1), (E'a\t', 1), ('B', 1)")
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as here:
        for sql in (
            "SELECT n, c::text || '|' AS s, length(c::text) AS l FROM t",
            "SELECT n FROM t WHERE c::text = 'a'",
            "SELECT n, c FROM t ORDER BY n LIMIT 5",
        ):
            live = here.query(sql, live=True)
            assert live.strategy == "incremental"
            here.verify(live)


def test_a_moment_has_passed_once_a_table_was_truncated(source: PostgresSource, url: str) -> None:
    """The rows were gone, at a position before the TRUNCATE."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE TABLE t (id int PRIMARY KEY)")
        other.execute("INSERT INTO t VALUES (1), (2)")
        source.capture("t")
        with source.moment() as moment:
            other.execute("DELETE FROM t WHERE id = 2")
            answer = moment.query("SELECT count(*) AS n FROM t")
            assert answer is not None
            assert answer.rows == [(2,)]
        with source.moment() as moment:
            other.execute("TRUNCATE t")
            assert moment.query("SELECT count(*) AS n FROM t") is None


def test_a_query_that_cannot_be_live_is_answered_all_the_same(url: str) -> None:
    """Once its tables were looked up before it was run, two columns of one name were refused."""
    source = PostgresSource(url)
    try:
        assert source.query("SELECT 1 AS a, 2 AS a").rows == [(1, 2)]
    finally:
        source.close()


def test_why_a_slot_was_let_go_of_is_told_also_to_who_sees_it_go(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who took changes found the slot gone while it was being let go of, and told that somebody had dropped it."""
    source = PostgresSource(url)
    source.attach(tmp_path)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source.capture("t")
    told: list[Item] = []
    taking = threading.Thread(target=lambda: told.extend(source.changes(source.position(), 60)))
    sees, remove, lack = threading.Event(), publication.remove, publication.lack

    def gone(*_: object) -> list[SchemaChange]:
        raise ChangesLost("it is not there")

    def seen(db: Connection, name: str) -> str | None:
        sees.set()
        return lack(db, name)

    def removed(db: Connection, name: str) -> list[str]:
        what = remove(db, name)
        if not sees.is_set():
            taking.start()
            assert sees.wait(60)
        return what

    monkeypatch.setattr(publication, "remove", removed)
    monkeypatch.setattr(publication, "lack", seen)
    monkeypatch.setattr(source._ddl_poll, "tell", gone)
    source.abandon("too much was kept for us")
    taking.join()
    source.close()
    [end] = [item for item in told if isinstance(item, SchemaChange)]
    assert end.reason.startswith("too much was kept for us")


@pytest.mark.parametrize("behind", ["DROP TABLE victim", "COMMIT; DROP TABLE victim; BEGIN", "ROLLBACK; TRUNCATE t"])
@pytest.mark.parametrize("sql", ["SELECT id FROM t", "SELECT id, row_number() OVER () AS n FROM t", "DEALLOCATE ALL"])
def test_what_is_behind_a_semicolon_is_never_run(url: str, tmp_path: Path, sql: str, behind: str) -> None:
    """Whoever might subscribe could drop a table: the statement was read together with what was behind it."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE TABLE t (id int PRIMARY KEY)")
        other.execute("INSERT INTO t VALUES (1)")
        other.execute("CREATE TABLE victim (id int PRIMARY KEY)")
        with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
            for ask in (lambda text: db.query(text, live=True), db.query, db.explain):
                with pytest.raises(SqlError):
                    ask(f"{sql}; {behind}")
            assert rows(db.query("SELECT id FROM t;", live=True)) == [{"id": 1}]
        assert other.execute("SELECT to_regclass('victim')::text, (SELECT count(*) FROM t)").fetchone() == ("victim", 1)


def test_a_key_that_is_checked_at_the_commit_names_no_row(url: str, tmp_path: Path) -> None:
    """To PostgreSQL it is no replica identity: its user's updates failed once we had published the table."""
    source = PostgresSource(url)
    source.attach(tmp_path)
    try:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, a text)")
            db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
            with pytest.raises(SourceError, match="no replica identity"):
                source.capture("t")
            db.execute("UPDATE t SET a = 'z' WHERE id = 1")
            db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
            source.capture("t")
            replica = Replica(source, "t")
            db.execute("UPDATE t SET id = 3 - id")
            replica.apply(drained(source, replica.position))
            replica.holds(source.query("SELECT id, a FROM t").rows)
    finally:
        source.close()


@pytest.mark.parametrize(
    ("sql", "params", "message", "hint"),
    [
        ("SELECT id FROM t WHERE id = $1", (), "expected 1 parameter, found 0 values", "[$]1"),
        ("SELECT id FROM t", (1,), "expected 0 parameters, found 1 value", "[$]1"),
        ("SELECT id FROM t WHERE id = ?", (1,), "syntax error", "[$]1"),
        ("DELETE FROM t RETURNING id", (), "syntax error at or near", ""),
    ],
)
def test_wrong_parameters_are_told_before_anything_is_read(
    url: str, tmp_path: Path, sql: str, params: tuple[int, ...], message: str, hint: str
) -> None:
    """A missing one ended the query after its tables had been captured, in words about a $1 that was there."""
    with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        for ask in (lambda: db.query(sql, *params, live=True), lambda: db.explain(sql, *params)):
            with pytest.raises(SqlError, match=message) as refused:
                ask()
            assert re.search(hint, refused.value.hint or "")


def test_what_another_thread_reads_while_a_position_is_told_is_not_passed_over(
    source: PostgresSource, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waited to be told; a question was asked just then, which read on in the stream; and the position that was
    told was the one behind that: the transaction in between was lost."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        source.capture("t")
        assert source._slot.stream is not None
        take, has_items = source._slot.stream.take, source._slot.stream.has_items
        taken, asked = list[int](), list[int]()

        def noted(after: int, rows_max: int) -> list[Item]:
            items = take(after, rows_max)
            taken.append(len(items))
            return items

        def overtaken() -> bool:
            found = has_items()
            if taken and not asked:
                assert not found
                db.execute("INSERT INTO t VALUES (1)")
                asked.append(source.query("SELECT id FROM t").position)
            return found

        monkeypatch.setattr(source._slot.stream, "take", noted)
        monkeypatch.setattr(source._slot.stream, "has_items", overtaken)
        after, told = source.position(), list[Item]()
        while not asked or after < asked[0]:
            items = source.changes(after, 1)
            told += items
            after = max([after, *(item.position for item in items)])
    assert [change.new for one in told if isinstance(one, Transaction) for change in one.changes] == [(1,)]


def _changed(source: PostgresSource, after: int, upto: int) -> list[tuple[object, object]]:
    """The old and new images of all changes behind a position, up to another."""
    told: list[tuple[object, object]] = []
    while after < upto:
        items = source.changes(after, 1)
        told += [(change.old, change.new) for one in items if isinstance(one, Transaction) for change in one.changes]
        after = max([after, *(item.position for item in items)])
    return told


def _told(source: PostgresSource, after: int, upto: int) -> list[object]:
    return [new for _, new in _changed(source, after, upto)]


def test_what_was_read_before_changes_are_asked_for_again_is_not_taken_for_what_follows(
    source: PostgresSource, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log could not be written, so changes were asked for again; a question had read on in the stream meanwhile.
    What it had read counted as the first of what is read again, and all before it was lost."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        source.capture("t")
        after = source.position()
        db.execute("INSERT INTO t VALUES (1)")
        assert _told(source, after, source.position()) == [(1,)]
        stream = source._slot.stream
        assert stream is not None and stream._replication is not None
        has_read, goes_on = threading.Event(), threading.Event()
        read, wake, rewind = stream._replication.read, stream._replication.wake, stream.rewind

        def held(timeout_s: float) -> Received:
            received = read(timeout_s)
            if received.payloads:
                has_read.set()
                assert goes_on.wait(30)
            return received

        def woken() -> None:
            wake()
            goes_on.set()

        def rewound() -> None:
            monkeypatch.setattr(stream._replication, "wake", woken)
            rewind()
            goes_on.set()

        monkeypatch.setattr(stream._replication, "read", held)
        monkeypatch.setattr(stream, "rewind", rewound)
        db.execute("INSERT INTO t VALUES (2)")
        asking = threading.Thread(target=source.query, args=("SELECT id FROM t",), daemon=True)
        asking.start()
        assert has_read.wait(30)
        assert _told(source, after, source.position()) == [(1,), (2,)]
        asking.join(30)


def test_changes_that_are_asked_for_again_while_a_table_is_captured_are_all_told(
    source: PostgresSource, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said of the table while its rows were read was forgotten; it failed, and counted as captured."""
    with psycopg.connect(url, autocommit=True) as db:
        for table in ("t", "u"):
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)".encode())
        source.capture("t")
        after = source.position()
        db.execute("INSERT INTO t VALUES (1)")
        assert _told(source, after, source.position()) == [(1,)]
        assert source._slot.row_cache is not None and source._slot.stream is not None
        seed, rewind = source._slot.row_cache.seed, source._slot.stream.rewind
        lock, told = ToldLock(), list[object]()
        monkeypatch.setattr(source._slot, "capturing", lock)
        again = threading.Thread(target=lambda: told.extend(_told(source, after, source.position())), daemon=True)

        def rewound() -> None:
            rewind()
            lock.is_awaited.set()

        def read_meanwhile(*given: Any) -> None:
            seed(*given)
            db.execute("INSERT INTO u VALUES (2)")
            again.start()
            assert lock.is_awaited.wait(30)

        monkeypatch.setattr(source._slot.row_cache, "seed", read_meanwhile)
        monkeypatch.setattr(source._slot.stream, "rewind", rewound)
        source.capture("u")
        again.join(30)
        assert told[0] == (1,)
        after = source.position()
        db.execute("UPDATE u SET id = 3")
        assert _told(source, after, source.position()) == [(3,)]


def test_what_was_not_read_again_is_not_settled(url: str, tmp_path: Path) -> None:
    """After a restart the log is ahead of what is kept of the rows, until the changes in between were read again. Where
    the log was told to be durable before that, the rows counted as if they were: the next update of one ended the
    table, at a place that was passed already, so nobody heard of it."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        source = PostgresSource(url)
        source.attach(tmp_path)
        source.capture("t")
        after = source.position()
        db.execute("INSERT INTO t VALUES (1, 1)")
        reached = source.position()
        assert _told(source, after, reached) == [(1, 1)]
        source.close()
        for _ in range(2):
            source = PostgresSource(url)
            source.attach(tmp_path)
            source.forget(reached)
            db.execute("UPDATE t SET n = n + 1")
            after, reached = reached, source.position()
            changed = _changed(source, after, reached)
            source.close()
        assert changed == [((1, 2), (1, 3))]


def test_a_table_that_is_lost_where_changes_are_read_again_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end was passed over, as all that had been told before; and its changes were, from then on."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        db.execute("INSERT INTO t VALUES (1, 1)")
        source = PostgresSource(url)
        source.attach(tmp_path)
        source.capture("t")
        after = source.position()
        db.execute("UPDATE t SET n = 2")
        reached = source.position()
        assert _told(source, after, reached) == [(1, 2)]
        source.close()
        source = PostgresSource(url)
        source.attach(tmp_path)
        assert source._slot.row_cache is not None
        monkeypatch.setattr(source._slot.row_cache, "held", lambda *_: None)
        upto, items = source.position(), list[Item]()
        while reached < upto:
            items += source.changes(reached, 1)
            reached = max([reached, *(item.position for item in items)])
        source.close()
    assert [(item.before.name, item.lost) for item in items if isinstance(item, SchemaChange)] == [("t", True)]
