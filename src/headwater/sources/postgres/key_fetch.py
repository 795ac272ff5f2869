"""Tables that are held by key: the rows of some keys are read, and followed from a position on.

The rows are read in a snapshot, at a position that lies a little behind the stream. What the stream says of the table
meanwhile is overheard, and brings them to where the stream stands: from there on their changes are reported. It reports
nothing itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from headwater.model.errors import SourceError
from headwater.model.key_demand import Demands, KeyDemand, covers, widened
from headwater.model.schema import Table
from headwater.model.value import Row, Value, to_array
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.decode.by_key import LargeValueMissing, RowsByKey, Said, caught_up
from headwater.sources.postgres.decode.row_wise import RowWiseDecoder
from headwater.sources.postgres.positions import Positions
from headwater.sources.postgres.row_cache.row_cache import RowCache, rows_of
from headwater.sources.postgres.row_cache.unsettled_fetches import KeptFetch
from headwater.sources.postgres.slot import CaptureSlot
from headwater.sources.postgres.snapshots import KeySnapshot, Snapshots
from headwater.sources.postgres.stream import Stream
from headwater.sources.postgres.wire.messages import Relation
from headwater.sources.source import FetchedRows, LoggedFetch, NotCaptured, no_rows

_ATTEMPTS_MAX = 32
_FEW = 4  # one in so many


class KeyFetch:
    """Safe to use from any thread: one fetch at a time."""

    def __init__(self, slot: CaptureSlot, snapshots: Snapshots, positions: Positions) -> None:
        self._slot, self._snapshots, self._positions = slot, snapshots, positions
        self._turn = threading.Lock()

    def fetch(self, table: str, demand: KeyDemand, condition: str) -> FetchedRows:
        """Again where the stream begins anew meanwhile, or a row lacks a value that only the database has."""
        with self._turn:
            for _ in range(_ATTEMPTS_MAX):
                found = self._attempt(table, demand, condition)
                if found is not None:
                    return found
        raise SourceError(f"rows of table {table} changed again and again while they were read", hint="subscribe again")

    def _attempt(self, table: str, demand: KeyDemand, condition: str) -> FetchedRows | None:
        row_cache, stream = self._slot.row_cache, self._slot.stream
        if row_cache is None or stream is None:
            raise _not_captured(table)
        with stream.moved:
            capture, decoder, not_before = _followed(row_cache, table), stream.decoder, stream.position
            decoder.overheard[capture.oid] = []
        try:
            read = self._snapshots.of_keys(capture, condition, not_before)
            with stream.moved:
                is_same = self._slot.stream is stream and stream.decoder is decoder
                return self._taken(row_cache, stream, capture.table, read, demand) if read and is_same else None
        finally:
            with stream.moved:
                decoder.overheard.pop(capture.oid, None)

    def _taken(
        self, row_cache: RowCache, stream: Stream, table: Table, read: KeySnapshot, demand: KeyDemand
    ) -> FetchedRows | None:
        """The rows where the stream stands; from there on they are followed."""
        capture = _followed(row_cache, table.name)
        later = [said for position, said in stream.decoder.overheard[capture.oid] if position > read.position]
        if capture.table != table or any(isinstance(said, Relation) for said in later):
            return None
        rows = pa.concat_batches([*read.rows, *no_rows(table)])
        if later:
            caught = _caught_up(stream.decoder, row_cache, capture, demand, rows, later)
            if caught is None:
                return None
            rows = caught
        stream.fetches.take(KeptFetch(stream.position, table.name, demand, rows))
        return FetchedRows(self._positions.tell(stream.position), table, rows)

    def follow_only(self, table: str, demands: Demands, fetched: Iterable[LoggedFetch]) -> bool:
        """The rows of other keys are forgotten. False where some of these keys were not followed."""
        row_cache, stream = self._slot.row_cache, self._slot.stream
        if row_cache is None or stream is None:
            return False
        with stream.moved:
            stream.fetches.restore(KeptFetch(one.position, table, demand, one.rows) for demand, one in fetched)
            capture = _named(row_cache, table)
            if capture is None or capture.demands is None:
                return False
            known = capture.demands
            for each in stream.fetches.due(table):
                known = widened(known, each)
            _narrow(row_cache, capture, demands, stream.position)
            return all(covers(known, one) for one in demands)


def _narrow(row_cache: RowCache, capture: CapturedTable, demands: Demands, position: int) -> None:
    """Rows that nobody asks for stay right until they are touched, and go then: those of few keys need not go now."""
    assert capture.demands is not None
    kept = tuple(KeyDemand(one.columns, one.keys & _keys(demands, one.columns)) for one in capture.demands)
    narrower = msgspec.structs.replace(capture, demands=tuple(one for one in kept if one.keys))
    before, after = (sum(len(one.keys) for one in each) for each in (capture.demands, kept))
    if before - after < after // _FEW:
        row_cache.reshape(position, narrower)
        return
    takes = RowsByKey(narrower, ()).demand.takes
    rows = [held for held in row_cache.all(capture) if takes(capture.padded(held.row))]
    row_cache.rewrite(position, narrower, rows)


def _keys(demands: Demands, columns: tuple[str, ...]) -> frozenset[bytes]:
    return next((one.keys for one in demands if one.columns == columns), frozenset())


def _caught_up(
    decoder: RowWiseDecoder,
    row_cache: RowCache,
    capture: CapturedTable,
    demand: KeyDemand,
    read: pa.RecordBatch,
    said: Sequence[Said],
) -> pa.RecordBatch | None:
    """None where the database must be asked again."""
    asking = RowsByKey(msgspec.structs.replace(capture, demands=(demand,)), decoder.by_key(capture).parsers)

    def held(named: Sequence[Value]) -> Row | None:
        found = row_cache.held(capture, named)
        return None if found is None else capture.padded(found.row)

    try:
        rows = caught_up(asking, rows_of(read, capture.table), said, held)
    except LargeValueMissing:
        return None
    columns = zip(*rows, strict=True) if rows else ([] for _ in capture.table.columns)
    arrays = [to_array(list(values), one.type) for values, one in zip(columns, capture.table.columns, strict=True)]
    return pa.record_batch(arrays, schema=capture.table.arrow)


def _named(row_cache: RowCache, table: str) -> CapturedTable | None:
    return next((one for one in row_cache.captures.values() if one.table.name == table), None)


def _followed(row_cache: RowCache, table: str) -> CapturedTable:
    capture = _named(row_cache, table)
    if capture is None or capture.demands is None:
        raise _not_captured(table)
    return capture


def _not_captured(table: str) -> NotCaptured:
    return NotCaptured(f"table {table!r} is not captured by key", hint="subscribe again")
