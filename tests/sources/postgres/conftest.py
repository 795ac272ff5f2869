"""A fresh database on a real server, of each version in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.sources.postgres.source import PostgresSource
from tests.support.postgres import VERSIONS, Postgres, Servers


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Postgres:
    return servers[request.param]


@pytest.fixture
def database(server: Postgres) -> Iterator[str]:
    with server.database() as name:
        yield name


@pytest.fixture
def url(server: Postgres, database: str) -> str:
    return server.url(database)


@pytest.fixture
def db(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as other programs have it, in autocommit."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def source(url: str, tmp_path: Path) -> Iterator[PostgresSource]:
    source = PostgresSource(url)
    source.attach(tmp_path)
    yield source
    source.close()
