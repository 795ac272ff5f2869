"""The worker process that reads large tables. Creating their Python values in the server would block its threads.

It writes the files to the directory of its order, and appends nothing to the log.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.pipeline.activation.hydration import hydrate
from headwater.pipeline.records.control import Hydration
from headwater.sources import open_source

ORDER, READ = "order", "read"


class ReadOrder(msgspec.Struct, frozen=True):
    """Read these tables of the source with this address. The log stood at `since` before."""

    address: str
    tables: tuple[str, ...]
    since: int


def read(order: ReadOrder, directory: Path) -> tuple[Hydration, ...]:
    source = open_source(order.address)
    try:
        return tuple(hydrate(source, table, directory, order.since, _say) for table in order.tables)
    finally:
        source.close()


def _say(table: str, rows: int) -> None:
    print(rows, table, flush=True)


def main(directory: Path) -> None:
    order = msgspec.msgpack.decode(read_checked(directory / ORDER), type=ReadOrder)
    write_checked(directory / READ, msgspec.msgpack.encode(read(order, directory)))
