"""Databases that we read: their schema, snapshots, changes and positions. Nothing here knows of windows or queries."""

from headwater.sources.registry import must_exist, open_doctor, open_source, shown
from headwater.sources.source import Answer, SchemaChange, Snapshot, Source, Writes

__all__ = [
    "Answer",
    "SchemaChange",
    "Snapshot",
    "Source",
    "Writes",
    "must_exist",
    "open_doctor",
    "open_source",
    "shown",
]
