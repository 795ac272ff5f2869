"""Captured tables: each is captured once, and registered in the catalog and in the log before it is used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from headwater.model.errors import SourceError
from headwater.model.schema import Table
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.by_key.held_keys import HeldKeys
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.records.control import CaptureRecord, Schema
from headwater.pipeline.records.control_log import ControlLog
from headwater.sources.source import ChangesLost, LoggedFetch, Source


class CapturedTables:
    """`lock` is the capture's: a table is registered between two batches of changes. `save` writes the catalog to its
    file; `on_new` is told of a table just before it is logged. `held` are the keys of tables that are held by key;
    `fetched` is what the log has of these; `end` logs the end of a table."""

    def __init__(
        self,
        source: Source,
        catalog: Catalog,
        log: ControlLog,
        lock: threading.Lock,
        save: Callable[[], None],
        on_new: Callable[[], None],
        held: HeldKeys,
        fetched: Callable[[str], Iterable[LoggedFetch]],
        end: Callable[[Schema], None],
    ) -> None:
        self._source, self._catalog, self._log, self._lock = source, catalog, log, lock
        self._save, self._on_new, self._held, self._end = save, on_new, held, end
        self._fetched = fetched
        self._turns = KeyedLock()

    def captured_by_key(self, name: str) -> Table:
        with self._turns.of(name):
            table = self._catalog.tables.get(name)
            if table is None:
                table = self._source.capture(name, by_key=True)
                self._register([table], by_key=True)
            return table

    def captured(self, names: Iterable[str]) -> list[Table]:
        """Where one was held by key until now, what reads it begins anew: all of its rows are needed. New ones are
        captured together. One may have ended again when this returns: whoever logs it looks."""
        wanted = sorted(names)
        with ExitStack() as turns:
            for name in wanted:  # in one order, whoever wants them
                turns.enter_context(self._turns.of(name))
            for name in self._catalog.by_key.intersection(wanted):
                self._make_whole(name)
            known = {name: self._catalog.tables.get(name) for name in wanted}
            new = [name for name, table in known.items() if table is None]
            if new:
                captured = self._source.capture_all(new)
                self._register(captured, by_key=False)
                known |= {table.name: table for table in captured}
            return [table for table in known.values() if table is not None]

    def _make_whole(self, name: str) -> None:
        with self._lock:
            self._catalog.whole.add(name)
            reason = f"a query needs all rows of table {name}, of which only some were held"
            self._end(Schema(name, None, reason, lost=True))

    def _register(self, tables: Sequence[Table], *, by_key: bool) -> None:
        with self._lock:
            for table in tables:
                self._catalog.tables[table.name] = table
                if by_key:
                    self._catalog.by_key.add(table.name)
                self._on_new()
                self._log.append(CaptureRecord(table))
        self._save()

    def recapture(self) -> None:
        """All of them, after a start. One that went away while we were down ends as if it had gone before our eyes."""
        for name in list(self._catalog.tables):
            try:
                self._source.capture(name, by_key=name in self._catalog.by_key)
                self._follow_keys(name)
            except SourceError as error:
                self._log.append(Schema(name, None, error.message, lost=isinstance(error, ChangesLost)))
                self._catalog.forget(name)
                self._held.forget(name)

    def _follow_keys(self, name: str) -> None:
        """Those that the cells hold."""
        if name not in self._catalog.by_key:
            return
        if not self._source.follow_only(name, self._held.demands(name), self._fetched(name)):
            raise ChangesLost(f"changes of rows of table {name} that were held by key are lost", hint="subscribe again")
