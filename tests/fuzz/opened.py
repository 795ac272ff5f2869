"""A database whose tables are held by key wherever they can be, whatever their size; or as ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.limits import DEFAULT
from headwater.pipeline.data_dir.grid import Grid

_BY_KEY = replace(DEFAULT, partial_rows_min=0)


def opened(url: str, data_dir: Path, *, runner: str = "inline", cells: str = "1x1", by_key: bool = False) -> Database:
    """Held by key only with one cell."""
    limits = _BY_KEY if by_key else DEFAULT
    server = Server(url, runner=runner, data_dir=data_dir, grid=Grid.parse(cells), limits=limits).start()
    return Database(lambda session: Embedded(server, session))
