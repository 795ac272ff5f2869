"""Databases to test with: the same one used in this process and over a WebSocket, with its server in reach."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.gateway.web.app import make_app
from headwater.gateway.web.serve import Background, listen
from headwater.model.emission import Fields
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.planning.options import PlanOptions

WAYS = ("embedded", "ws")


@dataclass(slots=True)
class Place:
    """`db` is what a user holds; `write` goes to the source, whichever way the user came."""

    server: Server
    db: Database
    url: str
    gateway: Background | None = None

    def write(self, sql: str, *params: Any) -> int:
        return self.server.pipeline.source.execute(sql, params)

    def write_together(self, *statements: str) -> int:
        with self.server.pipeline.source.transaction() as tx:
            for statement in statements:
                tx.execute(statement)
        return tx.position

    def source_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.server.pipeline.source.query(sql, ()).rows]


@contextlib.contextmanager
def place(
    way: str,
    data_dir: Path,
    *,
    url: str = "memory://",
    runner: str = "inline",
    cells: str = "1x1",
    limits: Limits = DEFAULT,
    options: PlanOptions | None = None,
) -> Iterator[Place]:
    """`way` is "embedded", or "ws" for a gateway on a free port."""
    server = Server(url, runner=runner, data_dir=data_dir, grid=Grid.parse(cells), limits=limits, options=options)
    if way == "embedded":
        server.start()
        with Database(lambda session: Embedded(server, session)) as db:
            yield Place(server, db, "")
    else:
        with gateway_of(server) as gateway, headwater.connect(_ws(gateway)) as db:
            yield Place(server, db, _ws(gateway), gateway)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[str]:
    """The server started, and its gateway on a free port."""
    with gateway_of(server) as gateway:
        yield _ws(gateway)


@contextlib.contextmanager
def gateway_of(server: Server) -> Iterator[Background]:
    server.start()
    gateway = Background(make_app(server), listen("127.0.0.1", 0), server.pipeline.limits)
    try:
        yield gateway
    finally:
        gateway.close()
        server.close()


def _ws(gateway: Background) -> str:
    return "ws" + gateway.url.removeprefix("http")


def rows(live: Sequence[Fields] | headwater.LiveResult) -> list[dict[str, Any]]:
    found = live if isinstance(live, Sequence) else live.rows
    return [dict(row) for row in found]


def values(live: headwater.LiveResult, column: str | None = None) -> list[Any]:
    """The values of one column, or of each row's first."""
    return [row[column or next(iter(row))] for row in live.rows]


def play(shown: list[Mapping[str, Any]], operations: Sequence[Any]) -> None:
    """What a user interface does with the operations of `observe`."""
    for operation in operations:
        match operation.type:
            case "set":
                shown[operation.index] = operation.row
            case "insert":
                shown.insert(operation.index, operation.row)
            case "remove":
                del shown[operation.index]
            case "swap":
                a, b = operation.index, operation.other
                shown[a], shown[b] = shown[b], shown[a]
