"""The keys that the cells hold, found after a restart: those of the saved state, and what was logged since.

It reads, and changes nothing. Tables are held by key only where there is one cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headwater.engine.checkpoint_document import read_document
from headwater.log.record import FIRST_OFFSET, Kind, Record
from headwater.log.segment import SegmentReader
from headwater.model.errors import Corrupt
from headwater.model.key_demand import KeyDemand
from headwater.pipeline.activation.hydration import fetched_rows
from headwater.pipeline.by_key.held_keys import Place
from headwater.pipeline.cell.manifest import read_manifests
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Expel, FetchRecord, Schema, Unwant, decode_control
from headwater.sources.source import FetchedRows, LoggedFetch

_KINDS = (Kind.FETCH, Kind.UNWANT, Kind.SCHEMA, Kind.DECISION)


def recovered_keys(layout: Layout) -> dict[Place, set[bytes]]:
    offset, held = _saved(layout)
    for record in _logged(layout, offset + 1):
        match decode_control(record):
            case FetchRecord(table, columns, keys):
                held.setdefault((table.name, columns), set()).update(keys)
            case Unwant(name, columns, keys):
                held.setdefault((name, columns), set()).difference_update(keys)
            case Schema(table=name, after=None) | Expel(name=name):
                held = {place: keys for place, keys in held.items() if place[0] != name}
    return held


def logged_fetches(layout: Layout, table: str) -> list[LoggedFetch]:
    """Those of a table that are still in the log, with their rows."""
    records = (decode_control(record) for record in _logged(layout, None) if record.kind is Kind.FETCH)
    return [
        (
            KeyDemand(record.columns, frozenset(record.keys)),
            FetchedRows(record.position, record.table, pa.concat_batches(fetched_rows(record, record.table))),
        )
        for record in records
        if isinstance(record, FetchRecord) and record.table.name == table
    ]


def _saved(layout: Layout) -> tuple[int, dict[Place, set[bytes]]]:
    """Any state that reads will do: what was logged since it was saved makes up for its age."""
    for manifest in read_manifests(layout.cell(0)):
        try:
            by_key = read_document(manifest.state).by_key
        except Corrupt:
            continue  # the cell passes over it, too
        return manifest.offset, {(table, columns): set(keys) for table, columns, keys in by_key}
    return FIRST_OFFSET - 1, {}


def _logged(layout: Layout, since: int | None) -> Iterator[Record]:
    with SegmentReader(layout.log) if since is None else SegmentReader(layout.log, since) as reader:
        while records := reader.poll():
            yield from (record for record in records if record.kind in _KINDS)
