"""Logs what the source says of a table's shape, and the end of the windows that cannot go on with it.

What is over is forgotten first: to read anew what the cells still have does no harm, to count on what they no longer
have would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.pipeline.by_key.held_keys import HeldKeys
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.planning.query_planner import QueryPlanner
from headwater.pipeline.records.control import Schema
from headwater.pipeline.requery.ended_windows import ended_windows
from headwater.pipeline.requery.watched_windows import WatchedWindows
from headwater.pipeline.subscriptions import Subscriptions


@dataclass(slots=True, eq=False)
class SchemaLog:
    """`save` writes the catalog to its file."""

    catalog: Catalog
    held: HeldKeys
    planner: QueryPlanner
    windows: WatchedWindows
    subscriptions: Subscriptions
    save: Callable[[], None]

    def changed(self, schema: Schema) -> None:
        self.planner.forget_tables()
        if schema.after is None:
            self.catalog.forget(schema.table)
            self.held.forget(schema.table)
        elif schema.retyped:
            self.catalog.forget_relations(schema.table)
            self.windows.reshaped(schema.table)
        self.subscriptions.close(ended_windows(self.windows, schema), schema)
        self.save()

    def redefined(self) -> None:
        """Views or functions may be others now."""
        self.planner.forget_tables()
        self.windows.redefined()
