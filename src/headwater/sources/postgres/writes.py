"""Statements of a user inside one transaction of PostgreSQL. It neither begins nor ends transactions."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.sources.postgres.server.connections import Connection, told
from headwater.sources.postgres.server.parameters import bound
from headwater.sources.source import Params


class PostgresWrites:
    """Statements inside the transaction that `transaction()` holds open."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self.position = 0

    def execute(self, sql: str, params: Params = ()) -> None:
        told(self._db, *bound(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> None:
        for row in rows:
            told(self._db, *bound(sql, row))
