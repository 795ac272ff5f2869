"""The windows that the source answers and that end with a change of a table's schema, each with the reason."""

from __future__ import annotations

from headwater.pipeline.records.control import Schema, UnsubscribeRecord
from headwater.pipeline.requery.watched_windows import WatchedWindows


def ended_windows(windows: WatchedWindows, schema: Schema) -> list[UnsubscribeRecord]:
    """Those that read a table which is gone, or count on keys that it does not have any more."""
    if schema.after is None:
        return [UnsubscribeRecord(one, schema.reason, schema.lost) for one in windows.reading(schema.table)]
    reason = f"the key of table {schema.table} was changed"
    return [UnsubscribeRecord(one, reason, lost=True) for one in windows.outgrown(schema.after)]
