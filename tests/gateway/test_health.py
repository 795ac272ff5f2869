"""One truth, told everywhere: while changes cannot reach subscribers, live results are stale with the reason, `/health`
is not ok and `status` says why; and all is well again when it is. A quiet database is well."""

from __future__ import annotations

import logging
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

import headwater
from headwater.client.database import Database
from headwater.log.segment import SegmentWriter
from headwater.model.errors import LogError, SourceError
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.delivery_lag import Backlog
from tests.support.databases import WAYS, Place, place
from tests.support.postgres import VERSIONS, Postgres, Servers
from tests.support.processes import eventually, health_at, served

pytestmark = pytest.mark.slow

SQL = "SELECT id, n FROM t"
ASKED = "SELECT id, row_number() OVER (ORDER BY n, id) AS place FROM t"
CREATE = ("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES (1, 10), (2, 20)")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is done here on purpose is not for the test's report."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@dataclass(slots=True)
class Origin:
    """An SQLite file, or a database of a PostgreSQL server."""

    url: str
    server: Postgres | None


@pytest.fixture(params=["sqlite", "postgres"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    if request.param == "sqlite":
        yield Origin(f"sqlite:///{tmp_path / 'a.db'}", None)
        return
    servers: Servers = request.getfixturevalue("servers")
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        yield Origin(server.url(database), server)


@pytest.fixture(params=WAYS)
def here(request: pytest.FixtureRequest, origin: Origin, tmp_path: Path) -> Iterator[Place]:
    with place(request.param, tmp_path / "data", url=origin.url) as here:
        for statement in CREATE:
            here.write(statement)
        yield here


def failure_of(here: Place) -> str | None:
    """What `status` says; and `/health` must say the same."""
    told = here.db.status()["failure"]
    if here.url:
        health = health_at(here.url)
        if health["failure"] == told:
            assert health["ok"] == (told is None)
    return None if told is None else str(told)


def becomes_stale(db: Database, here: Place, words: str) -> None:
    lives = db._session.lives.values()
    eventually(lambda: all(live.state == "stale" and words in (live.reason or "") for live in lives))
    assert words in (failure_of(here) or "")


def becomes_ready(db: Database, here: Place, position: int) -> None:
    for live in db._session.lives.values():
        assert live.wait(position)
        eventually(lambda live=live: (live.state, live.reason) == ("ready", None))
        db.verify(live) if not here.url else None
    eventually(lambda: failure_of(here) is None)


@contextmanager
def unreadable(here: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def refuse(*_: object) -> Any:
        raise SourceError("the database cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(here.server.pipeline.source, "changes", refuse)
        yield "cannot be read"


@contextmanager
def full_disk(here: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def refuse(writer: SegmentWriter, *_: object) -> Any:
        raise LogError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "append_many", refuse)
        yield "no space left"


@contextmanager
def failing_cell(here: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def fail(*_: object) -> Any:
        raise RuntimeError("this cell fails")

    with monkeypatch.context() as patch:
        patch.setattr(Cell, "_take", fail)
        yield "this cell fails"


@pytest.mark.parametrize("fault", [unreadable, full_disk, failing_cell])
def test_what_stops_changes_is_told_until_it_is_over(fault: Any, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for sql in (SQL, ASKED):
        here.db.query(sql, live=True)
    becomes_ready(here.db, here, 0)
    broken: AbstractContextManager[str] = fault(here, monkeypatch)
    with broken as words:
        position = here.write("UPDATE t SET n = n + 1")
        becomes_stale(here.db, here, words)
        late = Place(here.server, headwater.connect(here.url), here.url) if here.url else None
    becomes_ready(here.db, here, position)
    if late is not None:
        late.db.close()


@contextmanager
def away(here: Place, origin: Origin) -> Iterator[None]:
    """The server is down, or the file is not where it was."""
    if origin.server is not None:
        origin.server.stop(signal.SIGQUIT)
        yield
        origin.server.start()
    else:
        path = Path(origin.url.removeprefix("sqlite:///"))
        path.rename(path.with_suffix(".away"))
        yield
        path.with_suffix(".away").rename(path)


@contextmanager
def shown(chromium: Browser, here: Place) -> Iterator[Page]:
    """The page, with the query under way."""
    page = chromium.new_page()
    page.goto(f"http{here.url.removeprefix('ws')}/#sql={quote(SQL)}")
    expect(page.locator("#status")).to_have_text("connected")
    page.click("#run")
    expect(page.locator("#live")).to_have_text("live")
    yield page
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("fault", [unreadable, full_disk, failing_cell, away])
def test_page_live_results_health_and_status_tell_one_truth(
    fault: Any, origin: Origin, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place("ws", tmp_path / "data", url=origin.url) as here:
        for statement in CREATE:
            here.write(statement)
        here.db.query(SQL, live=True)
        with shown(chromium, here) as page:
            broken = away(here, origin) if fault is away else fault(here, monkeypatch)
            with broken as words:
                position = here.write("UPDATE t SET n = n + 1") if words else 0
                becomes_stale(here.db, here, words or "")
                expect(page.locator("#live")).to_have_text("stale")
                told = eventually(lambda: health_at(here.url)["failure"])
                assert told == here.db.status()["failure"] or not words
                expect(page.locator("#note")).to_contain_text(words or "These rows may be old")
            becomes_ready(here.db, here, position)
            assert health_at(here.url)["ok"]
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator("#note")).to_have_text("")


def test_a_database_that_is_stopped_is_told_until_it_is_back(servers: Servers, tmp_path: Path) -> None:
    server = servers[VERSIONS[-1]]
    with server.database() as database, place("ws", tmp_path / "data", url=server.url(database)) as here:
        for statement in CREATE:
            here.write(statement)
        lives = [here.db.query(sql, live=True) for sql in (SQL, ASKED)]
        server.stop(signal.SIGQUIT)
        eventually(lambda: [live.state for live in lives] == ["stale", "stale"])
        assert failure_of(here) is not None
        server.start()
        with server.connect(database) as writer:
            writer.execute("UPDATE t SET n = n + 1")
        eventually(lambda: {row["n"] for row in lives[0].rows} == {11, 21})
        becomes_ready(here.db, here, 0)


def test_changes_that_wait_too_long_are_told_and_their_lag_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(DEFAULT, stale_ms=2_000)
    held, take = threading.Event(), Cell._take
    monkeypatch.setattr(Cell, "_take", lambda cell, records: held.wait() and take(cell, records))
    held.set()
    with place("ws", tmp_path / "data", url=f"sqlite:///{tmp_path / 'a.db'}", limits=limits) as here:
        for statement in CREATE:
            here.write(statement)
        here.db.query(SQL, live=True)
        becomes_ready(here.db, here, 0)
        assert here.db.status()["lag_ms"] == 0, "a quiet database is well"
        held.clear()
        try:
            position = here.write("UPDATE t SET n = n + 1")
            becomes_stale(here.db, here, "have been waiting")
            lag_ms = here.db.status()["lag_ms"]
            eventually(lambda: here.db.status()["lag_ms"] > lag_ms)
        finally:
            held.set()
        becomes_ready(here.db, here, position)
        assert here.db.status()["lag_ms"] == 0


def test_a_database_that_neither_answers_nor_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, held = replace(DEFAULT, stale_ms=2_000), threading.Event()
    with place("ws", tmp_path / "data", url=f"sqlite:///{tmp_path / 'a.db'}", limits=limits) as here:
        for statement in CREATE:
            here.write(statement)
        here.db.query(SQL, live=True)
        changes = here.server.pipeline.source.changes
        with monkeypatch.context() as patch:
            patch.setattr(here.server.pipeline.source, "changes", lambda *asked: held.wait() and changes(*asked))
            try:
                becomes_stale(here.db, here, "reading changes from the database has taken")
            finally:
                held.set()
        becomes_ready(here.db, here, here.write("UPDATE t SET n = n + 1"))


def test_only_the_query_that_the_database_does_not_answer_is_stale(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed, asked = here.db.query(SQL, live=True), here.db.query(ASKED, live=True)

    def refuse(*_: object) -> Any:
        raise SourceError("too many connections")

    with monkeypatch.context() as patch:
        patch.setattr(here.server.pipeline.source, "query", refuse)
        position = here.write("UPDATE t SET n = 30 - n")
        assert followed.wait(position)
        eventually(lambda: asked.state == "stale" and "too many connections" in (asked.reason or ""))
        assert followed.state == "ready"
    becomes_ready(here.db, here, position)


def test_a_disk_that_is_full_makes_live_results_stale(origin: Origin, tmp_path: Path) -> None:
    """No file of the server may grow; and when there is room again, it goes on by itself."""
    with headwater.connect(origin.url, runner="inline", data_dir=tmp_path / "first") as db:
        for statement in CREATE:
            db.execute(statement)
    with served(origin.url, tmp_path / "data", runner="inline") as ours, headwater.connect(ours.url) as db:
        lives = [db.query(sql, live=True) for sql in (SQL, ASKED)]
        room = resource.prlimit(ours.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, (512, room[1]))
        with headwater.connect(origin.url, runner="inline", data_dir=tmp_path / "first") as writer:
            position = writer.execute("UPDATE t SET n = n + 1")
        eventually(lambda: [live.state for live in lives] == ["stale", "stale"])
        assert not ours.health()["ok"]
        resource.prlimit(ours.pid, resource.RLIMIT_FSIZE, room)
        for live in lives:
            assert live.wait(position)
        eventually(lambda: [live.state for live in lives] == ["ready", "ready"])
        eventually(lambda: ours.health()["ok"])


def test_what_waits_longest_tells_the_lag() -> None:
    backlog = Backlog(10, 100.0)
    backlog.add(12, 105.0, 101.0)
    backlog.add(13, 106.0, 500.0)  # a clock that is ahead
    assert backlog.oldest(9) is not None
    waiting = backlog.oldest(11)
    assert waiting is not None and (waiting.logged_at, waiting.committed_at) == (105.0, 101.0)
    waiting = backlog.oldest(12)
    assert waiting is not None and waiting.committed_at == 106.0
    assert backlog.oldest(13) is None
    for offset in range(14, 20_000):
        backlog.add(offset, float(offset), None)
    waiting = backlog.oldest(19_998)
    assert waiting is not None and waiting.offset == 19_999
