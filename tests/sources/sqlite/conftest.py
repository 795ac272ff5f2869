"""A database file, the source on it, and connections of others to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.sources.sqlite.source import SqliteSource

Connect = Callable[..., sqlite3.Connection]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "source.db"


@pytest.fixture
def connect(path: Path) -> Iterator[Connect]:
    """Connections as other programs have them, in autocommit."""
    opened: list[sqlite3.Connection] = []

    def connection(*statements: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None, timeout=30)
        opened.append(db)
        for statement in statements:
            db.execute(statement)
        return db

    yield connection
    for db in opened:
        db.close()


@pytest.fixture
def db(connect: Connect) -> sqlite3.Connection:
    return connect("PRAGMA journal_mode = WAL")


@pytest.fixture
def source(db: sqlite3.Connection, path: Path) -> Iterator[SqliteSource]:
    source = SqliteSource(path)
    yield source
    source.close()
