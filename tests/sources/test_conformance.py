"""The conformance suite, run by every source we have."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest

from headwater.sources import open_source
from headwater.sources.source import Source
from headwater.sources.sqlite.memory import MemorySource
from tests.sources.conformance import *  # noqa: F403 - its tests are run here
from tests.sources.conformance import Execute, SampleDatabase, closing
from tests.support.postgres import VERSIONS, Servers


@pytest.fixture(params=["memory", "sqlite", *(f"postgres-{version}" for version in VERSIONS)])
def database(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[SampleDatabase]:
    kind, _, version = request.param.partition("-")
    if kind == "postgres":
        with (
            servers[version].database() as database,
            closing(_postgres(servers[version].url(database), tmp_path)) as it,
        ):
            yield it
    else:
        with closing(_memory(tmp_path) if kind == "memory" else sqlite_database(tmp_path)) as it:
            yield it


def _memory(directory: Path) -> SampleDatabase:
    source = MemorySource()
    opened: list[Source] = []

    def same() -> Source:
        if opened:
            source.hold()
        opened.append(source)
        return source

    @contextmanager
    def foreign() -> Iterator[Execute]:
        with source.transaction() as tx:
            yield tx.execute

    return SampleDatabase(same, foreign, directory, "?", "BLOB", "REAL")


def sqlite_database(directory: Path, journal: str = "WAL") -> SampleDatabase:
    path = directory / "source.db"
    sqlite3.connect(path).execute(f"PRAGMA journal_mode = {journal}").close()

    @contextmanager
    def foreign() -> Iterator[Execute]:
        db = sqlite3.connect(path, isolation_level=None, timeout=30)
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db.execute
            db.execute("COMMIT")
        finally:
            db.close()

    return SampleDatabase(lambda: open_source(f"sqlite:///{path}"), foreign, directory, "?", "BLOB", "REAL")


def _postgres(url: str, directory: Path) -> SampleDatabase:
    def foreign() -> AbstractContextManager[Execute]:
        return _transaction(url)

    return SampleDatabase(lambda: open_source(url), foreign, directory, "$1", "bytea", "double precision")


@contextmanager
def _transaction(url: str) -> Iterator[Execute]:
    with psycopg.connect(url) as db:
        yield lambda sql: db.execute(sql.encode())
