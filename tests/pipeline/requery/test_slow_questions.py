"""A question that never ends holds up nobody: it has a limit, and is cancelled when no client wants it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

import headwater
from headwater.model.errors import HeadwaterError, LimitExceeded
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.requery.question_queue import QuestionQueue
from headwater.sources.sqlite.source import SqliteSource
from tests.support.databases import Place, place
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually, served

_NUMBERS = "WITH RECURSIVE c(x) AS (SELECT {0} UNION ALL SELECT x + 1 FROM c)"
_COUNT = "SELECT count(*) AS n, {0} AS number FROM (SELECT generate_series(1, 100000000000) FROM t) AS q"
_QUICK = "SELECT a, row_number() OVER (ORDER BY a) AS place FROM quiet"
_KEYED = {
    "sqlite": "SELECT a, date(a, 'unixepoch') AS day FROM quiet",
    "postgres": "SELECT a, quote_ident(a::text) AS shown FROM quiet",
}
_HOURS = replace(DEFAULT, question_ms_max=10_000_000)
_MOMENT = replace(DEFAULT, question_ms_max=1_500)


@dataclass(frozen=True, slots=True)
class Origin:
    url: str
    kind: str
    is_busy: Callable[[Place], bool]

    def endless(self, number: int) -> str:
        if self.kind == "postgres":
            return _COUNT.format(number)
        return f"{_NUMBERS.format(number)} SELECT max(x) AS x FROM c, t"


@pytest.fixture(params=["sqlite", "postgres"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    if request.param == "sqlite":
        yield Origin(f"sqlite:///{tmp_path / 't.db'}", "sqlite", _sqlite_is_busy)
        return
    servers: Servers = request.getfixturevalue("servers")
    server = servers[VERSIONS[-1]]
    with server.database() as name:
        yield Origin(server.url(name), "postgres", lambda _: _postgres_is_busy(server.url(name)))


def _sqlite_is_busy(here: Place) -> bool:
    source = here.server.pipeline.source
    assert isinstance(source, SqliteSource)
    return source.questions.busy > 0


def _postgres_is_busy(url: str) -> bool:
    with psycopg.connect(url) as db:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'generate_series' "
            "AND datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return row is not None and row[0] > 0


def _opened(origin: Origin, tmp_path: Path, limits: Limits) -> Iterator[Place]:
    with place("ws", tmp_path / "data", url=origin.url, limits=limits) as found:
        found.write("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        found.write("CREATE TABLE quiet (a INTEGER PRIMARY KEY)")
        found.write("INSERT INTO t VALUES (1)")
        yield found


@pytest.fixture
def here(origin: Origin, tmp_path: Path) -> Iterator[Place]:
    """Where nothing but its client ends a question."""
    yield from _opened(origin, tmp_path, _HOURS)


@pytest.fixture
def strict(origin: Origin, tmp_path: Path) -> Iterator[Place]:
    yield from _opened(origin, tmp_path, _MOMENT)


@pytest.mark.slow
def test_others_follow_writes_beside_endless_questions_which_end_with_their_client(origin: Origin, here: Place) -> None:
    with headwater.connect(here.url) as other:
        endless = [other.query(origin.endless(number), live=True, timeout=0.1) for number in range(5)]
        eventually(lambda: origin.is_busy(here))
        lives = [here.db.query(sql, live=True) for sql in (_QUICK, _KEYED[origin.kind])]
        assert [live.strategy for live in lives] == ["requery", "selective"]
        for number in range(5):
            position = here.write(f"INSERT INTO quiet VALUES ({number})")
            assert all(live.wait(position) and len(live.rows) == number + 1 for live in lives)
        assert origin.is_busy(here) and all(live.state == "initializing" for live in endless)
    eventually(lambda: not origin.is_busy(here))
    assert lives[0].wait(here.write("INSERT INTO quiet VALUES (7)"))


def test_a_question_over_the_limit_says_so_and_others_go_on(origin: Origin, strict: Place) -> None:
    live = strict.db.query(_QUICK, live=True)
    with pytest.raises(HeadwaterError, match=r"took longer than 1\.5 s"):
        strict.db.query(origin.endless(1), live=True, timeout=120)
    eventually(lambda: not origin.is_busy(strict))
    assert live.wait(strict.write("INSERT INTO quiet VALUES (7)")) and live.state == "ready"


def test_a_plain_query_has_the_limit_too(origin: Origin, tmp_path: Path) -> None:
    with place("embedded", tmp_path / "data", url=origin.url, limits=_MOMENT) as here:
        here.write("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        here.write("INSERT INTO t VALUES (1)")
        with pytest.raises(LimitExceeded, match=r"took longer than 1\.5 s"):
            here.db.query(origin.endless(1))
        assert here.db.query("SELECT a FROM t") == [{"a": 1}]


def test_an_answer_that_is_too_large_ends_its_query_alone(origin: Origin, tmp_path: Path) -> None:
    """Rows without end: they are counted as they come, and never gathered."""
    numbers = {
        "sqlite": f"{_NUMBERS.format(1)} SELECT x FROM c WHERE EXISTS (SELECT 1 FROM t)",
        "postgres": "SELECT generate_series(1, 100000000000) AS x FROM t",
    }
    limits = replace(_HOURS, question_bytes_max=1 << 20)
    for here in _opened(origin, tmp_path, limits):
        live = here.db.query(_QUICK, live=True)
        with pytest.raises(HeadwaterError, match="larger than 1 MiB"):
            here.db.query(numbers[origin.kind], live=True, timeout=120)
        assert live.wait(here.write("INSERT INTO quiet VALUES (7)")) and live.state == "ready"


def test_a_database_in_memory_has_the_limit_too() -> None:
    with headwater.connect("memory://slow", runner="inline") as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        server = db._backend._server  # type: ignore[attr-defined]
        server.pipeline.limits = _MOMENT
        with pytest.raises(LimitExceeded, match=r"took longer than 1\.5 s"):
            db.query(f"{_NUMBERS.format(1)} SELECT max(x) AS x FROM c")
        assert db.query("SELECT count(*) AS n FROM t") == [{"n": 0}]


def test_describing_a_query_runs_nothing_of_it(tmp_path: Path) -> None:
    """Two uses of one recursion are materialized before the first row: its columns must be told without."""
    source = SqliteSource(tmp_path / "t.db")
    try:
        source.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        sql = f"{_NUMBERS.format(1)} SELECT one.x, two.x AS y FROM t, c AS one, c AS two"
        assert source.reads(sql).columns == ("x", "y")
    finally:
        source.close()


@pytest.mark.slow
def test_sigterm_ends_the_server_whatever_runs(origin: Origin, tmp_path: Path) -> None:
    for _ in _opened(origin, tmp_path, DEFAULT):
        pass
    with served(origin.url, tmp_path / "data", runner="inline") as server, headwater.connect(server.url) as db:
        for number in range(5):
            db.query(origin.endless(number), live=True, timeout=0.1)
        if origin.kind == "postgres":
            eventually(lambda: _postgres_is_busy(origin.url))
        os.kill(server.pid, signal.SIGTERM)
        process = server._process
        assert process is not None
        assert eventually(lambda: process.poll() is not None)
        if origin.kind == "postgres":
            eventually(lambda: not _postgres_is_busy(origin.url))


def test_clients_take_turns_and_none_has_all_lanes() -> None:
    queue = QuestionQueue(lanes=2)
    for window in (1, 2, 3):
        queue.put(window, client=1, slow=False)
    queue.put(4, client=2, slow=False)
    queue.put(5, client=3, slow=True)
    assert queue.take(False) == (1, 1), "the first that was put"
    assert queue.take(False) == (4, 2), "then another client's, though client 1 has more that are due"
    assert queue.take(False) is None, "client 1 has its share of these lanes, and client 3 is slow"
    assert queue.take(True) == (5, 3) and queue.take(True) == (2, 1), "slow lanes take others when no slow one is due"
    queue.done(False, 1)
    queue.put(1, client=1, slow=False)
    assert queue.take(False) == (3, 1), "a window that just asked goes behind the others"
