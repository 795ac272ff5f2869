"""Fetches the rows of keys that subscribers ask for, of tables that are held by key, and logs them: before the
subscription itself, so that its cell has them.

One question at a time is under way for a table and its columns; what is asked for meanwhile is asked together after it.
It runs in the threads of the subscribers.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from headwater.model.errors import SourceError
from headwater.model.key_demand import KeyDemand, key_of
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.pipeline.activation.activator import CaptureProgress, Outdated
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.by_key.held_keys import HeldKeys, Place
from headwater.pipeline.by_key.key_condition import key_condition
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.records.control import FetchRecord
from headwater.pipeline.records.control_log import ControlLog
from headwater.plan.planner import Planned
from headwater.plan.template import key_columns, wanted_keys
from headwater.sources.source import FetchedRows, NotCaptured, Source

TOGETHER_MAX = 500  # keys of one question: SQLite takes no more than 1,000 conditions joined by OR
_RECORD_BYTES = 8 << 20  # of the rows in one record, about
_ATTEMPTS_MAX = 8


@dataclass(slots=True, eq=False)
class KeyFetcher:
    """`kept` is told what a record reads of the log, so that it is not cleared away. `questions` counts them."""

    source: Source
    catalog: Catalog
    log: ControlLog
    capture: CaptureProgress
    held: HeldKeys
    turns: KeyedLock
    kept: Callable[[int, int, Iterable[str]], None]
    questions: int = 0
    _waiting: dict[Place, dict[bytes, Row]] = field(default_factory=lambda: defaultdict(dict))
    _asking: set[Place] = field(default_factory=set)
    _moved: threading.Condition = field(default_factory=threading.Condition)

    def want(self, planned: Iterable[Planned]) -> None:
        """Returns once the rows of all their keys, of tables that are held by key, are in the log before whatever is
        appended next."""
        wanted: dict[Place, dict[bytes, Row]] = defaultdict(dict)
        for one in planned:
            template = one.template
            table = self.catalog.tables.get(template.table)
            if template.table in self.catalog.by_key and table is not None:
                columns = key_columns(template)
                asked = wanted_keys(template, one.instance)
                keys = {key_of(table, columns, values): values for values in asked}
                self.held.claim(one.instance.id, (template.table, columns), keys)
                wanted[template.table, columns] |= keys
        for place, keys in wanted.items():
            self._want(place, keys)

    def _want(self, place: Place, keys: Mapping[bytes, Row]) -> None:
        """Who finds that nobody asks just now asks for all that wait."""
        while missing := self.held.missing(place, keys):
            with self._moved:
                self._waiting[place].update({key: keys[key] for key in missing})
                if place in self._asking:
                    self._moved.wait_for(lambda: place not in self._asking)
                    continue
                self._asking.add(place)
                batch = dict(islice(self._waiting[place].items(), TOGETHER_MAX))
                for key in batch:
                    del self._waiting[place][key]
            try:
                self._fetch(place, {key: batch[key] for key in self.held.missing(place, batch)})
            finally:
                with self._moved:
                    self._asking.discard(place)
                    self._moved.notify_all()

    def _fetch(self, place: Place, wanted: Mapping[bytes, Row]) -> None:
        """Again where the table has another shape by the time that its rows are to be logged."""
        if not wanted:
            return
        with self.turns.of(turn_of(place[0])):
            try:
                for _ in range(_ATTEMPTS_MAX):
                    if self._is_logged(place, wanted):
                        return
            finally:
                self.held.keep_out(place, wanted)
        raise SourceError(f"table {place[0]} changed again and again while it was read", hint="subscribe again")

    def _is_logged(self, place: Place, wanted: Mapping[bytes, Row]) -> bool:
        name, columns = place
        with self.capture.lock:
            table = self._table(name)
            since = self.log.next_offset
            self.turns.reads(turn_of(name), since)
            self.held.let_in(place, wanted)
        demand = KeyDemand(columns, frozenset(wanted))
        fetched = self._asked(table, demand, list(wanted.values()))
        self.capture.reached(fetched.position)
        records = list(_records(fetched, columns, sorted(wanted), since))
        with self.capture.lock, self.held.lock:
            if self._table(name) != fetched.table:
                return False
            self.kept(self.log.append_later(records)[-1], since, ())  # the subscription follows, and takes them along
            self.held.note_fetched(place, wanted, fetched.rows.nbytes)
        return True

    def _asked(self, table: Table, demand: KeyDemand, keys: Sequence[Row]) -> FetchedRows:
        self.questions += 1
        try:
            return self.source.fetch(table.name, demand, key_condition(table, demand.columns, keys))
        except NotCaptured as error:
            self.capture.reached(self.source.position())  # by then its end is logged
            raise Outdated(error.message, hint=error.hint) from error

    def _table(self, name: str) -> Table:
        table = self.catalog.tables.get(name)
        if table is None or name not in self.catalog.by_key:
            raise Outdated(f"table {name} is no longer held by key", hint="subscribe again")
        return table


def turn_of(table: str) -> str:
    """The turn of whoever changes which keys of a table are held."""
    return f"keys of {table}"


def _records(
    fetched: FetchedRows, columns: tuple[str, ...], keys: Sequence[bytes], since: int
) -> Iterator[FetchRecord]:
    """The rows in as many records as they need."""
    parts = list(_parts(fetched.rows))
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        yield FetchRecord(fetched.table, columns, tuple(keys), _packed(part), fetched.position, since, is_last)


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    size = max(1, rows.num_rows * _RECORD_BYTES // max(rows.nbytes, _RECORD_BYTES)) if rows.num_rows else 1
    for start in range(0, max(1, rows.num_rows), size):
        yield rows.slice(start, size)


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
