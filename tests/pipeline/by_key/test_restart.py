"""Tables that are held by key after a restart and after `kill -9`: the keys that the cells hold are followed on, and no
others."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.errors import HeadwaterError, SourceError
from headwater.pipeline.by_key import fetcher
from headwater.pipeline.records.control import FetchRecord
from tests.pipeline.test_faults import Chain, kill_server
from tests.support.by_key import BY_KEY, QUERIES, Writers, created, expected, first_rows, opened, state_rows
from tests.support.databases import place, rows
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually, served

IN_LIST = "SELECT id, note FROM orders WHERE id IN (7, 70000)"
KILLS = max(2, int(os.environ.get("HEADWATER_KILLS", "5")))


@pytest.fixture(params=["sqlite", *(f"postgres {version}" for version in VERSIONS)])
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shop.db'}"
    else:
        server = servers[request.param.split()[1]]
        with server.database() as database:
            yield server.url(database)


@pytest.mark.parametrize("sql", ["SELECT id, note FROM orders WHERE id = 7", IN_LIST])
def test_what_was_written_while_it_was_down_is_followed(url: str, tmp_path: Path, sql: str) -> None:
    created(url)
    for life in range(3):
        with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
            live = here.db.query(sql, live=True)
            assert here.server.pipeline.keys.questions == (0 if life else 1)
            assert live.wait(here.db.position())
            assert life == 0 or rows(live) == [{"id": 7, "note": f"life {life}"}]
            here.db.verify(live)
        db = opened(url)
        db.execute(f"UPDATE orders SET note = 'life {life + 1}' WHERE id IN (7, 8)")
        db.close()
        assert state_rows(tmp_path / "data") == 1


def test_keys_that_were_fetched_and_not_logged_are_let_go_of(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between the two: the source follows them, and the log does not know them."""
    created(url)

    def fails(*_: Any) -> Iterator[FetchRecord]:
        raise SourceError("it ended here")

    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        here.db.query("SELECT note FROM orders WHERE id = 1", live=True)
        with monkeypatch.context() as patched:
            patched.setattr(fetcher, "_records", fails)
            with pytest.raises(HeadwaterError, match="it ended here"):
                here.db.query("SELECT note FROM orders WHERE id = 2", live=True)
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        live = here.db.query("SELECT note FROM orders WHERE id = 1", live=True)
        assert live.wait(here.write("UPDATE orders SET note = 'both' WHERE id IN (1, 2)"))
        assert rows(live) == [{"note": "both"}]
        other = here.db.query("SELECT note FROM orders WHERE id = 2", live=True)
        assert rows(other) == [{"note": "both"}]
        assert other.wait(here.write("UPDATE orders SET note = 'again' WHERE id IN (1, 2)"))
        assert rows(live) == rows(other) == [{"note": "again"}]
    assert state_rows(tmp_path / "data") == 2


def test_fetched_rows_that_are_saved_leave_the_log(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are followed on after a restart all the same."""
    monkeypatch.setattr("headwater.pipeline.retention._SEGMENT_BYTES_MIN", 1)
    created(url)
    limits = replace(BY_KEY, manifest_interval_ms=0)
    with place("embedded", tmp_path / "data", url=url, limits=limits) as here:
        lives = [here.db.query(f"SELECT id, note FROM orders WHERE id = {n}", live=True) for n in range(1, 4)]
        pipeline, fetched = here.server.pipeline, here.server.pipeline.log_offset

        def is_cleared() -> bool:
            assert lives[0].wait(here.write("UPDATE orders SET note = note || '!' WHERE id = 1"))
            pipeline._retention.sweep()
            return pipeline._log.first_offset >= fetched

        eventually(is_cleared)
    with place("embedded", tmp_path / "data", url=url, limits=limits) as here:
        lives = [here.db.query(f"SELECT id, note FROM orders WHERE id = {n}", live=True) for n in range(1, 4)]
        assert here.server.pipeline.keys.questions == 0
        position = here.write("UPDATE orders SET note = 'x' WHERE id < 4")
        assert all(live.wait(position) for live in lives)
        assert [rows(live) for live in lives] == [[{"id": n, "note": "x"}] for n in range(1, 4)]


def test_a_table_that_was_made_whole_stays_so(url: str, tmp_path: Path) -> None:
    created(url)
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        here.db.query("SELECT note FROM orders WHERE id = 1", live=True)
        here.db.query("SELECT count(*) AS n FROM orders", live=True)
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        live = here.db.query("SELECT note FROM orders WHERE id = 1", live=True)
        assert not here.server.pipeline._catalog.by_key
        assert live.wait(here.write("UPDATE orders SET note = 'x' WHERE id = 1"))
        here.db.verify(live)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_kills_at_any_moment_clients_resume_and_have_the_rows_of_the_database(url: str, tmp_path: Path) -> None:
    """New keys come all the time: some kills are between the fetch of one and its record."""
    created(url)
    chance, mark = random.Random(1), "$1" if url.startswith("postgres") else "?"
    by_key = ("--by-key-rows", "0")
    with (
        served(url, tmp_path / "data", runner="inline", options=by_key) as server,
        headwater.connect(server.url) as db,
    ):
        chains: list[tuple[str, int, Chain]] = []

        def come(count: int) -> None:
            for _ in range(count):
                sql, keys = chance.choice(QUERIES)
                key = chance.randrange(keys)
                chains.append((sql, key, Chain(db.query(sql.replace("?", mark), key, live=True))))

        with Writers(url, 2, 7):
            for _ in range(KILLS):
                come(5)
                time.sleep(chance.uniform(0, 0.3))
                kill_server(server)
            come(5)
        position = db.position()
        table = first_rows(url)
        for sql, key, chain in chains:
            assert chain.live.wait(position)
            assert not chain.broken, chain.broken
            found = [tuple(row.values()) for row in chain.live.rows]
            assert sorted(found) == sorted(expected(sql, key, table)), f"{sql} for {key}"
