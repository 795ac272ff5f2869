"""Fetches of keys whose rows are not on disk yet. Where the stream begins anew from what is, they are taken over again
when it has come to where they were read: then every later change of their rows finds its old image.

What is lost with the process is in the log, and comes back by `restore`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from headwater.model.key_demand import Demands, KeyDemand, widened
from headwater.sources.postgres.row_cache.row_cache import RowCache


@dataclass(frozen=True, slots=True)
class KeptFetch:
    """The rows of some keys of a table as of `position`."""

    position: int
    table: str
    demand: KeyDemand
    rows: pa.RecordBatch


class UnsettledFetches:
    """Belongs to whoever holds the stream's lock. `due` are those that the stream has still to come to."""

    def __init__(self, row_cache: RowCache) -> None:
        self._row_cache = row_cache
        self._kept: deque[KeptFetch] = deque()  # by position
        self._due: list[KeptFetch] = []

    def take(self, fetch: KeptFetch) -> None:
        """The stream stands where it was read."""
        self._settle()
        self._kept.append(fetch)
        self._follow(fetch, fetch.position)

    def restore(self, fetches: Iterable[KeptFetch]) -> None:
        """After a restart, before anything is read: those that were logged."""
        logged = [one for one in fetches if one.position > self._row_cache.position]
        self._kept = deque(sorted([*self._kept, *logged], key=_position))
        self._due = sorted([*self._due, *logged], key=_position)

    def rewound(self) -> None:
        """The stream begins anew from what is on disk."""
        self._settle()
        self._due = list(self._kept)

    def come_to(self, position: int, reached: int) -> None:
        """Before a transaction at `position` is read: all up to `reached` was."""
        while self._due and self._due[0].position < position:
            fetch = self._due.pop(0)
            self._follow(fetch, max(fetch.position, reached))

    def due(self, table: str) -> Demands:
        demands: Demands = ()
        for one in self._due:
            demands = widened(demands, one.demand) if one.table == table else demands
        return demands

    def _settle(self) -> None:
        """Those that are on disk go."""
        on_disk = self._row_cache.position
        while self._kept and self._kept[0].position <= on_disk:
            self._kept.popleft()

    def _follow(self, fetch: KeptFetch, position: int) -> None:
        """From here on, unless the table has ended."""
        capture = next((one for one in self._row_cache.captures.values() if one.table.name == fetch.table), None)
        if capture is not None and capture.demands is not None:
            wider = msgspec.structs.replace(capture, demands=widened(capture.demands, fetch.demand))
            self._row_cache.fetched(position, wider, fetch.rows)


def _position(fetch: KeptFetch) -> int:
    return fetch.position
