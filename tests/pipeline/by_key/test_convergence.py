"""A table that is held by key is right at every position, while keys come and go and several connections write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.by_key import BY_KEY, Journal, Writers, check, come_and_go, created, first_rows
from tests.support.databases import place
from tests.support.postgres import VERSIONS, Servers


@pytest.fixture(params=["sqlite", *(f"postgres {version}" for version in VERSIONS)])
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shop.db'}"
    else:
        server = servers[request.param.split()[1]]
        with server.database() as database:
            yield server.url(database)


@pytest.mark.parametrize("seed", range(2))
def test_at_every_position_while_keys_come_and_go_and_four_connections_write(
    url: str, tmp_path: Path, seed: int
) -> None:
    """Keys that nobody asks for go at once."""
    created(url)
    journal, limits = Journal(first_rows(url)), replace(BY_KEY, key_idle_ms=0)
    with place("embedded", tmp_path / "data", url=url, limits=limits) as here:
        marker = here.db.query("SELECT n, id, customer, region, note, gone FROM journal", live=True)
        marker.listen(journal.take)
        with Writers(url, 4, seed):
            seen = come_and_go(here, random.Random(seed), 40, lambda: len(journal.changes) > 200)
        assert marker.wait(here.db.position())
        assert here.server.pipeline._catalog.by_key == {"orders"}
    assert check(journal, seen) > 500
    assert not any(one.live.resyncs for one in seen)
