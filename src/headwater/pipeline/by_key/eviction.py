"""The end of keys: those that nobody asks for any more are let go of, in the log, in the cells and in the source.

A key is taken out before its end is logged: to fetch it again does no harm, to count on rows that are gone would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.model.limits import Limits
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.by_key.fetcher import turn_of
from headwater.pipeline.by_key.held_keys import HeldKeys, Place
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.records.control import Unwant
from headwater.pipeline.records.control_log import ControlLog
from headwater.sources.source import Source


@dataclass(frozen=True, slots=True, eq=False)
class KeyEviction:
    source: Source
    catalog: Catalog
    log: ControlLog
    held: HeldKeys
    turns: KeyedLock
    limits: Limits

    def evict_idle(self) -> None:
        for table in sorted(self.catalog.by_key):
            with self.turns.of(turn_of(table)):
                self._evict_of(table)

    def _evict_of(self, table: str) -> None:
        with self.held.lock:
            limits = self.limits
            gone = self.held.take_idle(table, limits.key_idle_ms / 1000, limits.keys_max, limits.keys_bytes_max)
            if not gone:
                return
            self.log.append_many(unwants(gone.items()))
        self.source.follow_only(table, self.held.demands(table))

    def released(self, places: Iterable[Place]) -> list[Unwant]:
        """What is to be logged where nothing reads tables by these columns any more."""
        return unwants((place, self.held.take_all(place)) for place in places)

    def follow_rest(self, tables: Iterable[str]) -> None:
        """In turn: nobody fetches meanwhile."""
        for table in tables:
            self.source.follow_only(table, self.held.demands(table))


def unwants(gone: Iterable[tuple[Place, tuple[bytes, ...]]]) -> list[Unwant]:
    return [Unwant(table, columns, keys) for (table, columns), keys in gone if keys]
