"""PostgreSQL as an origin: the smallest cases that once went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.model.errors import SourceError
from headwater.sources.postgres.origin import PostgresSource
from tests.support.postgres import VERSIONS, Servers


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    with servers[request.param].database() as database:
        yield servers[request.param].url(database)


def test_a_partition_without_a_replica_identity_is_not_published(url: str, tmp_path: Path) -> None:
    """The whole has one, its partition has not: the user's UPDATE failed once we had published it."""
    source = PostgresSource(url)
    source.attach(tmp_path)
    try:
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
    finally:
        source.close()
