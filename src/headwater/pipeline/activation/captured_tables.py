"""Captured tables: each is captured once, and registered in the catalog and in the log before it is used."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headwater.model.errors import SourceError
from headwater.model.schema import Table
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.records.control import CaptureRecord, Schema
from headwater.pipeline.records.control_log import ControlLog
from headwater.sources.source import ChangesLost, Source


class CapturedTables:
    """`lock` is the capture's: a table is registered between two batches of changes. `save` writes the catalog to its
    file; `on_new` is told of a table just before it is logged."""

    def __init__(
        self,
        source: Source,
        catalog: Catalog,
        log: ControlLog,
        lock: threading.Lock,
        save: Callable[[], None],
        on_new: Callable[[], None],
    ) -> None:
        self._source, self._catalog, self._log, self._lock = source, catalog, log, lock
        self._save, self._on_new = save, on_new
        self._turns = KeyedLock()

    def captured(self, name: str) -> Table:
        with self._turns.of(name):
            return self._catalog.tables.get(name) or self._newly_captured(name)

    def _newly_captured(self, name: str) -> Table:
        table = self._source.capture(name)
        with self._lock:
            self._catalog.tables[name] = table
            self._on_new()
            self._log.append(CaptureRecord(table))
        self._save()
        return table

    def recapture(self) -> None:
        """All of them, after a start. One that went away while we were down ends as if it had gone before our eyes."""
        for name in list(self._catalog.tables):
            try:
                self._source.capture(name)
            except SourceError as error:
                self._log.append(Schema(name, None, error.message, lost=isinstance(error, ChangesLost)))
                self._catalog.forget(name)
