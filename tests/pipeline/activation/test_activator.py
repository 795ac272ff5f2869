"""Templates that come to life while others write: rows read at one position, folded with what was committed since."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.limits import DEFAULT
from tests.support.databases import Place, place, values
from tests.support.processes import eventually

QUERIES = (
    "SELECT id, n FROM t",
    "SELECT id FROM t WHERE n = 3",
    "SELECT n, id FROM t WHERE id = 7",
    "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 5",
    "SELECT v FROM u",
    "SELECT v FROM u WHERE v = 2",
)


class Writer(threading.Thread):
    """Writes until it is told to stop."""

    def __init__(self, here: Place, seed: int) -> None:
        super().__init__()
        self._here, self._pick, self._enough = here, random.Random(seed), threading.Event()
        self.count = 0

    def run(self) -> None:
        pick = self._pick
        while not self._enough.is_set():
            self._here.write_together(
                f"INSERT OR REPLACE INTO t VALUES ({pick.randrange(30)}, {pick.randrange(5)})",
                f"UPDATE OR REPLACE t SET id = {pick.randrange(30)} WHERE id = {pick.randrange(30)}",
                f"DELETE FROM t WHERE id = {pick.randrange(30)}",
                f"INSERT INTO u VALUES ({pick.randrange(4)})",
                f"DELETE FROM u WHERE v = {pick.randrange(4)}",
            )
            self.count += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()


def slow_down(here: Place, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Reading a table takes its time, before and after."""
    source, pick = here.server.pipeline.source, random.Random(seed)
    snapshot = source.snapshot

    def slow(table: str, **options: Any) -> Any:
        time.sleep(pick.uniform(0, 0.03))
        read = snapshot(table, **options)
        time.sleep(pick.uniform(0, 0.03))
        return read

    monkeypatch.setattr(source, "snapshot", slow)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("source", ["memory", "sqlite"])
def test_hydration_and_concurrent_commits_fold_into_one(
    seed: int, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "memory://" if source == "memory" else f"sqlite:///{tmp_path / 'origin.db'}"
    with place("embedded", tmp_path / "data", url=url, cells="2x1") as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("CREATE TABLE u (v INTEGER)")
        slow_down(here, monkeypatch, seed)
        writer = Writer(here, seed)
        writer.start()
        try:
            lives = [here.db.query(sql, live=True) for sql in random.Random(seed).sample(QUERIES, len(QUERIES))]
            for live in lives:
                here.db.verify(live)
            eventually(lambda: writer.count > 10)
        finally:
            writer.stop()
        for live in lives:
            here.db.verify(live)


def readings(here: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are read from the database from now on."""
    read: list[str] = []
    snapshot = here.server.pipeline.source.snapshot

    def counted(table: str, **options: Any) -> Any:
        read.append(table)
        return snapshot(table, **options)

    monkeypatch.setattr(here.server.pipeline.source, "snapshot", counted)
    return read


HELD = (
    "SELECT t.id AS t, t.a, t.b, u.id AS u, u.v FROM t JOIN u ON u.id = t.a",
    "SELECT t.id AS t, u.id AS u FROM t LEFT JOIN u ON u.v = t.b",
    "SELECT id, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.v = t.b)",
    "SELECT t.id AS t, u.v FROM t JOIN u ON u.id = t.a WHERE t.b = 'x'",
    "SELECT a, count(*) AS n FROM t GROUP BY a",
    "SELECT id, a FROM t WHERE a = 1",
    "SELECT id FROM u ORDER BY v, id LIMIT 1",
)


def test_relations_over_tables_that_are_held_read_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first join reads its tables. Whatever reads these by other keys does not, also after a restart."""
    url = f"sqlite:///{tmp_path / 'origin.db'}"
    with place("embedded", tmp_path / "data", url=url) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
        here.write("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
        here.write("INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 1, NULL)")
        here.write("INSERT INTO u VALUES (1, 'x'), (2, 'y'), (3, NULL)")
        read = readings(here, monkeypatch)
        lives = [here.db.query(sql, live=True) for sql in HELD[:4]]
        here.write("UPDATE t SET a = 2, b = 'x' WHERE id = 2")
        for live in lives:
            here.db.verify(live)
        assert sorted(read) == ["t", "u"]
    with place("embedded", tmp_path / "data", url=url) as here:
        read = readings(here, monkeypatch)
        lives = [here.db.query(sql, live=True) for sql in HELD]
        here.write_together("DELETE FROM u WHERE id = 1", "INSERT INTO t VALUES (4, 2, 'y')")
        for live in lives:
            here.db.verify(live)
        assert read == []


def test_a_column_that_is_not_held_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path / "data") as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
        here.write("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
        here.write("INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y')")
        here.write("INSERT INTO u VALUES (1, 'x')")
        read = readings(here, monkeypatch)
        first = here.db.query("SELECT t.id AS t, u.v FROM t JOIN u ON u.id = t.a", live=True)
        second = here.db.query("SELECT t.id AS t, t.b, u.v FROM t JOIN u ON u.id = t.a", live=True)
        assert sorted(read) == ["t", "t", "u", "u"]
        here.write_together("UPDATE t SET a = 1 WHERE id = 2", "UPDATE t SET b = 'z' WHERE id = 1")
        for live in (first, second):
            here.db.verify(live)


def test_what_is_let_go_of_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 0.0)
    limits = replace(DEFAULT, template_idle_ms=0, manifest_interval_ms=20)
    with place("embedded", tmp_path / "data", limits=limits) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
        here.write("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
        here.write("INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y')")
        here.write("INSERT INTO u VALUES (1, 'x'), (2, 'y')")
        read = readings(here, monkeypatch)
        for sql in HELD[:2]:
            live = here.db.query(sql, live=True)
            here.db.verify(live)
            live.abort()
            eventually(lambda: _released(here) == 0)
        assert sorted(read) == ["t", "t", "u", "u"]


def _released(here: Place) -> int:
    """How many templates are left."""
    here.server.pipeline.release()
    return len(here.server.pipeline._catalog.templates)


def test_five_keys_of_a_table_are_one_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path / "data") as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
        here.write("INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 1, NULL)")
        read = readings(here, monkeypatch)
        where = ("a = 1", "b = 'x'", "id = 3", "a = 1 AND b = 'x'", "a > 0")
        lives = [here.db.query(f"SELECT id, a, b FROM t WHERE {each}", live=True) for each in where]
        for live in lives:
            here.db.verify(live)
        here.write("UPDATE t SET a = 1, b = 'x' WHERE id = 2")
        here.write("DELETE FROM t WHERE id = 1")
        for live in lives:
            here.db.verify(live)
        assert read == ["t"]


def test_a_slow_table_delays_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one table is read, known templates get new subscribers and their changes, in time."""
    with place("ws", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("CREATE TABLE u (v INTEGER)")
        here.write("INSERT INTO t VALUES (1, 1), (2, 2)")
        quick = here.db.query("SELECT id FROM t WHERE n = ?", 1, live=True)
        reading, go_on = threading.Event(), threading.Event()
        snapshot = here.server.pipeline.source.snapshot

        def stuck(table: str, **options: Any) -> Any:
            reading.set()
            go_on.wait(120)
            return snapshot(table, **options)

        monkeypatch.setattr(here.server.pipeline.source, "snapshot", stuck)
        found: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda n=n: found.append(here.db.query("SELECT v FROM u WHERE v > ?", n, live=True))
            )
            for n in range(12)
        ]
        for thread in threads:
            thread.start()
        assert reading.wait(120)
        assert quick.wait(here.write("INSERT INTO t VALUES (3, 1)")) and sorted(values(quick)) == [1, 3]
        assert values(here.db.query("SELECT id FROM t WHERE n = ?", 2, live=True)) == [2]
        with headwater.connect(here.url) as other:
            assert values(other.query("SELECT id FROM t WHERE n = ?", 2, live=True)) == [2]
        assert not found
        go_on.set()
        for thread in threads:
            thread.join()
        assert len(found) == 12 and all(live.state == "ready" for live in found)


def test_a_table_that_changes_while_it_is_read_is_refused_and_can_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place("embedded", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.db.query("SELECT count(*) AS n FROM t", live=True).abort()  # captures it, and holds none of its rows
        source = here.server.pipeline.source
        snapshot = source.snapshot

        def changing(table: str, **options: Any) -> Any:
            read = snapshot(table, **options)
            here.write("DROP TABLE t")
            while "t" in here.server.pipeline._catalog.tables:
                time.sleep(0.01)
            return read

        monkeypatch.setattr(source, "snapshot", changing)
        with pytest.raises(headwater.HeadwaterError, match="no such table: t"):
            here.db.query("SELECT id FROM t WHERE n = 1", live=True)
        monkeypatch.setattr(source, "snapshot", snapshot)
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("INSERT INTO t VALUES (4, 1)")
        assert values(here.db.query("SELECT id FROM t WHERE n = 1", live=True)) == [4]


def test_a_question_to_the_origin_that_fails_is_told_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place("ws", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        source = here.server.pipeline.source
        snapshot = source.snapshot

        def failing(table: str, **options: Any) -> Any:
            raise headwater.SourceError("the disk cannot be read", hint="see to the disk")

        monkeypatch.setattr(source, "snapshot", failing)
        with pytest.raises(headwater.SourceError, match="the disk cannot be read") as refused:
            here.db.query("SELECT id FROM t", live=True)
        assert refused.value.hint == "see to the disk"
        assert here.server.hub.subscriptions == 0
        monkeypatch.setattr(source, "snapshot", snapshot)
        assert here.db.query("SELECT id FROM t", live=True).state == "ready"
