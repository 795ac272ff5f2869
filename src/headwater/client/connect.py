"""`connect` and `aconnect`: from a URL to a database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.database import Database
from headwater.model.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.aio import AsyncDatabase


def connect(
    url: str,
    *,
    runner: str = "spark",
    master: str | None = None,
    data_dir: str | Path | None = None,
    token: str | None = None,
    cells: str = "1x1",
    epoch_s: float = 60.0,
    ephemeral: bool = False,
    strategy: str | None = None,
    join_order: str | int = "chosen",
) -> Database:
    """Opens a database: embedded for `sqlite:///…`, `memory://` and `postgresql://…`, a gateway's for `ws://…`, `wss://…`.

    `runner` is where the data pipeline runs: "spark", or "inline" with no Spark. `data_dir` holds the log and the
    state; by default a directory under the user's data home, named after the source. With `ephemeral` and no `data_dir`
    nothing is kept when the database is closed. For tests and benchmarks: `strategy` forces that of every query, or
    refuses it; `join_order` is "chosen" by cost, as "written", or the seed of random ones.
    """
    if url.startswith(("ws://", "wss://")):
        return _remote(url, token, is_plain=strategy is None and join_order == "chosen")
    from headwater.client.embedded import Embedded
    from headwater.gateway.server import Server
    from headwater.pipeline.data_dir.grid import Grid
    from headwater.pipeline.planning.options import PlanOptions

    server = Server(
        url,
        runner=runner,
        master=master,
        data_dir=None if data_dir is None else Path(data_dir),
        grid=Grid.parse(cells),
        epoch_s=epoch_s,
        ephemeral=ephemeral,
        options=PlanOptions(strategy, join_order),
    ).start()
    return Database(lambda session: Embedded(server, session))


def _remote(url: str, token: str | None, *, is_plain: bool) -> Database:
    from headwater.client.remote import Remote  # which needs no engine, and the engine no sockets

    if not is_plain:
        raise HeadwaterError("strategy and join_order are options of an embedded database", hint="leave them out")
    return Database(lambda session: Remote(url, session, token))


async def aconnect(url: str, **options: Any) -> AsyncDatabase:
    """As `connect`, for asyncio: the same names, awaitable."""
    from headwater.client.aio import AsyncDatabase

    return AsyncDatabase(await asyncio.to_thread(connect, url, **options))
