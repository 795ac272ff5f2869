"""Live queries on PostgreSQL while rows come, change and go at random: each is followed, and held against the source's
own answer after every round."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import headwater
from tests.support.postgres import Postgres

Write = Callable[[psycopg.Connection[Any], random.Random], None]


@contextmanager
def database_with(server: Postgres, statements: Sequence[str]) -> Iterator[str]:
    """Its address."""
    with server.database() as database:
        with server.connect(database) as db:
            for statement in statements:
                db.execute(statement.encode())
        yield server.url(database)


def check_followed(url: str, directory: Path, queries: Sequence[str], write: Write, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    with (
        headwater.connect(url, runner="inline", data_dir=directory) as db,
        psycopg.connect(url, autocommit=True) as own,
    ):
        write(own, chance)
        lives = {sql: db.query(sql, live=True) for sql in queries}
        assert [sql for sql, live in lives.items() if live.strategy != "incremental"] == []
        for _ in range(rounds):
            write(own, chance)
            end = db.position()
            for live in lives.values():
                assert live.wait(end)
                assert live.reason is None
                db.verify(live)
