"""Activation: reads the rows of a new template's tables and logs the template, so that every cell computes it.

It runs in the thread of the subscriber; capture and cells continue meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from headwater.engine.activation import compile_ahead
from headwater.engine.operators.join.pair_bound import pairs_at_most
from headwater.engine.state.table.scan_index import columns_read, scanned_columns
from headwater.engine.windows.partition import home_of
from headwater.model.errors import SourceError, SqlError
from headwater.model.schema import Table
from headwater.pipeline.activation.captured_tables import CapturedTables
from headwater.pipeline.activation.hydration import Progress
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.activation.offload import Offload
from headwater.pipeline.activation.row_statistics import hydration_profiler
from headwater.pipeline.data_dir.catalog import Arranged, Catalog, Known, RelationPlan
from headwater.pipeline.records.control import Activate, Hydration
from headwater.pipeline.records.control_log import ControlLog
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.cluster import clusters_of
from headwater.plan.join_order.order import JoinOrder, reordered
from headwater.plan.join_order.profile import Profiler
from headwater.plan.planner import Planned, effective_sql, template_from_sql
from headwater.plan.template import Template, key_columns
from headwater.sources.source import Source
from headwater.sql.ir.relation import Relation

_log = logging.getLogger("headwater.pipeline")


class Outdated(SourceError):
    """A plan was made for tables that have other columns or types by now."""


class CaptureProgress(Protocol):
    """What an activation needs of the capture."""

    lock: threading.Lock

    def reached(self, position: int) -> None:
        """Returns once everything up to the position is in the log."""


@dataclass(slots=True, eq=False)
class Activator:
    """`queries` is how many partitions of queries there are; `save` writes the catalog to its file; `kept` is told what
    an activation reads, so that it is not cleared away; `declared` is a table as it is now; `choose` finds the order in
    which joins run."""

    source: Source
    catalog: Catalog
    log: ControlLog
    capture: CaptureProgress
    tables: CapturedTables
    offload: Offload
    turns: KeyedLock
    queries: int
    save: Callable[[], None]
    kept: Callable[[int, int, Iterable[str]], None]
    progress: Progress
    declared: Callable[[str], Table | None]
    by_key_rows_min: int
    choose: Callable[[Relation, Profiler], JoinOrder | None] = chosen

    def activate(self, planned: Planned) -> None:
        """By whoever has the turn of its table: captures its tables, has the source prepare its query, reads its rows,
        logs it."""
        template = planned.template
        by_key = self.held_by_key(template)
        tables = [self.tables.captured_by_key(template.table)] if by_key else self.tables.captured(template.tables)
        self.source.prepare(effective_sql(template, planned.instance))
        if by_key:
            held = tuple(Hydration(table, by_key=True) for table in tables)
            self._activated(template, Activate(template.id, template.sql, held))
            return
        since = self.log.next_offset
        self.turns.reads(template.table, since)
        self._activated(template, self._hydrated(template, tables, since))

    def held_by_key(self, template: Template) -> bool:
        """Whether only the rows that its subscribers ask for are held of its table, which is large."""
        name = template.table
        if self.queries > 1 or template.relation is not None or not key_columns(template) or name in self.catalog.whole:
            return False
        if name in self.catalog.tables:
            return name in self.catalog.by_key
        declared = self.declared(name)
        if declared is None or not declared.key:
            return False
        return (self.source.rows_about(name) or 0) >= self.by_key_rows_min

    def _activated(self, template: Template, activate: Activate) -> None:
        """Logs the activation, once all that its rows hold is logged: what comes after it is not in them.

        Under capture's lock: a table that changes its shape is logged before or after.
        """
        if activate.position is not None:
            self.capture.reached(activate.position)
            activate = msgspec.structs.replace(activate, order=self._order(template, activate))
            pairs = relation_pairs(template, activate)
            built = self.offload.built(activate, self.partitions(template), self.log.next_offset, pairs)
            activate = msgspec.structs.replace(activate, built=built)
        tables = dict(self.catalog.tables)
        bound = still_fitting(template, tables)  # which takes a while for a long text: not under the lock
        if bound is not None:
            compile_ahead(bound, tables)
        with self.capture.lock:
            if any(self.catalog.tables.get(name) != tables.get(name) for name in template.tables):
                bound = still_fitting(template, self.catalog.tables)
            by_key = any(one.by_key for one in activate.tables)
            is_gone = activate.position is None and not by_key and not self._is_here(template)
            if bound is None or is_gone or by_key == self.catalog.by_key.isdisjoint(template.tables):
                raise Outdated(
                    f"columns changed while the rows were read: {', '.join(sorted(template.tables))}",
                    hint="subscribe again",
                )
            self.kept(self.log.append(activate), activate.since, activate.kept)
            rows = sum(one.rows for one in activate.tables)
            _log.debug("activated template %s: %d rows read, built %d times", template.id, rows, len(activate.built))
            arranged = Arranged(template.table, key_columns(template), None) if by_key else self._arranged(template)
            self.catalog.arranged.add(arranged)
            names = tuple(output.name for output in template.outputs)
            held = self._held(template)
            self.catalog.templates[template.id] = Known(template.table, template.tables, names, arranged, held)
            if activate.order is not None:
                self.catalog.plans.setdefault(template.table, RelationPlan(activate.order))
        self.save()

    def _order(self, template: Template, activate: Activate) -> JoinOrder | None:
        """By the rows that were read."""
        if template.relation is None or not any(clusters_of(template.relation)):
            return None
        order = self.choose(template.relation, hydration_profiler(activate.tables, self.offload.directory))
        _log.debug("joins of template %s run in the order %s", template.id, order)
        return order

    def _hydrated(self, template: Template, tables: Iterable[Table], since: int) -> Activate:
        if self._is_here(template) and self._is_soon_made(template):
            return Activate(template.id, template.sql, tuple(Hydration(table) for table in tables))
        names = [table.name for table in tables]
        read = self.offload.hydrated(self.source, names, since, self.progress)
        return Activate(template.id, template.sql, tuple(read))

    def _is_here(self, template: Template) -> bool:
        """The cells have all rows that it needs, by the catalog."""
        if self._is_arranged(template):
            return True
        reads = self._reads(template)
        return self.queries == 1 and bool(reads) and all(self.catalog.holds(*each) for each in reads.items())

    def _is_soon_made(self, template: Template) -> bool:
        """Cells make it of what is here while everyone else waits. What takes long is made beside them, of rows that
        are read for it; so is a relation whose joins have an order to choose, which needs the rows."""
        relation = template.relation
        if self._is_arranged(template):
            return True
        if relation is not None and any(clusters_of(relation)):
            return False
        rows = {table: self.source.rows_about(table) or 0 for table in self._reads(template)}
        return self.offload.makes_here(sum(rows.values()), 0 if relation is None else pairs_at_most(relation, rows))

    def _reads(self, template: Template) -> Mapping[str, Iterable[str]]:
        """The columns of each table that must be here."""
        if template.relation is None:
            return {template.table: self.catalog.tables[template.table].names}
        return columns_read(template.relation)

    def _held(self, template: Template) -> dict[str, frozenset[str]]:
        """The columns of base tables that every cell holds for a template."""
        if self.queries > 1 or template.table in self.catalog.by_key:
            return {}
        if template.relation is None:
            return {template.table: frozenset(self.catalog.tables[template.table].names)}
        scanned = scanned_columns(template.relation, self.catalog.tables)
        return {table: frozenset(columns) for table, columns in scanned.items()}

    def _is_arranged(self, template: Template) -> bool:
        """The cells have the rows, and can arrange them by any keys. Of several cells each has only its part of a
        table, by the keys that it was arranged by; a relation each of them has whole."""
        wanted = self._arranged(template)
        whole = template.relation is not None or self.queries == 1
        return any(
            one.name == wanted.name and (whole or one.keys == wanted.keys) and one.home in (None, wanted.home)
            for one in self.catalog.arranged
        )

    def _arranged(self, template: Template) -> Arranged:
        home = None if template.keys else home_of(template, self.queries)
        return Arranged(template.table, template.keys, home)

    def partitions(self, template: Template) -> tuple[int, ...]:
        """Those whose cells keep something of it."""
        return tuple(range(self.queries)) if template.keys else (home_of(template, self.queries),)


def relation_pairs(template: Template, activate: Activate) -> int:
    """That a relation's joins may have to compare, by the rows that were read."""
    if template.relation is None:
        return 0
    physical = reordered(template.relation, activate.order)
    return pairs_at_most(physical, {one.table.name: one.rows for one in activate.tables})


def still_fitting(template: Template, tables: Mapping[str, Table]) -> Template | None:
    """The template with the tables as they are now; None where its query no longer comes to the same."""
    try:
        bound = template_from_sql(template.sql, dict(tables))
    except SqlError:
        return None
    return bound if bound.id == template.id else None
