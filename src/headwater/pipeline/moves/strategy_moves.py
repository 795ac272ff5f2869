"""Moves the windows of a template to another strategy, and back, by a record of the log.

No window ends by it: at the record each shows its rows once more, under other hashes. It does not decide when to move.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headwater.log.record import tx_of
from headwater.model.errors import HeadwaterError
from headwater.pipeline.activation.activator import Activator
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.capture import Capture
from headwater.pipeline.data_dir.catalog import Catalog, Known, MovedTemplate
from headwater.pipeline.planning.current_strategies import CurrentStrategies
from headwater.pipeline.planning.query_planner import QueryPlanner
from headwater.pipeline.records.control import MoveRecord, UnsubscribeRecord
from headwater.pipeline.records.control_log import ControlLog
from headwater.pipeline.requery.watched_windows import WatchedWindows
from headwater.pipeline.subscriptions import Subscriptions
from headwater.pipeline.template_usage import TemplateUsage
from headwater.plan.planner import Planned
from headwater.plan.requery_whole import Requeried
from headwater.plan.strategy import INCREMENTAL, REQUERY
from headwater.plan.template import Instance, Template

_log = logging.getLogger("headwater.moves")


@dataclass(slots=True, eq=False)
class StrategyMoves:
    """`save` writes the catalog to its file. A move is saved before it is logged: whoever subscribes after a crash in
    between says so in the record of the subscription."""

    catalog: Catalog
    log: ControlLog
    strategies: CurrentStrategies
    planner: QueryPlanner
    windows: WatchedWindows
    usage: TemplateUsage
    turns: KeyedLock
    capture: Capture
    activator: Activator
    subscriptions: Subscriptions
    save: Callable[[], None]

    def resume(self) -> None:
        """After a restart: what was moved is said again, because the end may have come before it was logged."""
        for template, moved in list(self.catalog.moved.items()):
            self.catalog.ask(template, moved)
            self.log.append(MoveRecord(template, moved.strategy, moved.reason))

    def ask(self, template_id: str, reason: str, change_ms: float = 0.0, times: int = 1) -> bool:
        """The source answers its windows from here on; whether that is another strategy than before. Not those of a
        table that is held by key: what is held for them are the rows that they ask for, and their changes are all that
        is heard of."""
        template = self.usage.template(template_id)
        if template is None:
            return False
        with self.turns.of(template.table):
            known = self.catalog.templates.get(template_id)
            if known is None or known.arranged is None or template_id in self.catalog.moved:
                return False
            if template.table in self.catalog.by_key:
                return False
            moved = MovedTemplate(REQUERY, reason, template.table, change_ms, times)
            made = {one.id: self._question(template, one, reason) for one in self.usage.instances(template_id)}
            with self.strategies.lock, self.usage.lock, self.capture.lock:
                live = self.usage.instances(template_id)
                queries = [made.get(one.id) or self._question(template, one, reason) for one in live]
                self._ask(template, known, moved, queries)
        _log.info("template %s is asked again from now on (%d windows): %s", template_id, len(queries), reason)
        return True

    def _question(self, template: Template, instance: Instance, reason: str) -> Requeried:
        return self.planner.moved.of(Planned(template, instance, REQUERY, moved=reason))

    def _ask(self, template: Template, known: Known, moved: MovedTemplate, queries: list[Requeried]) -> None:
        """Under the locks: what is logged before it is in the rows of the windows, what comes after makes them due."""
        self.catalog.ask(template.id, moved)
        try:
            self.save()
            offset = self.log.append(MoveRecord(template.id, moved.strategy, moved.reason))
        except HeadwaterError:
            self.catalog.follow(template.id, known)
            raise
        self.strategies.note(template.id, None, tx_of(offset, 0), moved)
        for query in queries:
            self.planner.requeried[query.instance] = query
            self.windows.watch(query, known=(self.capture.position, offset))

    def follow(self, template_id: str, reason: str) -> bool:
        """Its windows are followed change by change again. Where that cannot be, they begin anew, as they are planned
        now."""
        template = self.usage.template(template_id)
        if template is None or template_id not in self.catalog.moved:
            return False
        with self.turns.of(template.table):
            live = self.usage.instances(template_id)
            if not live:
                return False  # who comes next is asked for too, until it costs too much
            try:
                self.activator.activate(Planned(template, live[0]))
                self._follow(template_id, reason)
                _log.info("template %s is followed again: %s", template_id, reason)
            except HeadwaterError as error:
                _log.warning("template %s begins anew: %s", template_id, error.message)
                self._begin_anew(template_id, error.message)
        for one in self.windows.of_template(template_id):
            self.windows.forget(one.query.instance)
            self.planner.requeried.pop(one.query.instance, None)
        return True

    def _follow(self, template_id: str, reason: str) -> None:
        with self.strategies.lock, self.capture.lock:
            before = self.catalog.moved.pop(template_id)
            try:
                self.save()
                offset = self.log.append(MoveRecord(template_id, INCREMENTAL, reason))
            except HeadwaterError:
                self.catalog.ask(template_id, before)
                raise
            self.strategies.note(template_id, before, tx_of(offset, 0), None)

    def _begin_anew(self, template_id: str, reason: str) -> None:
        with self.strategies.lock, self.usage.lock, self.capture.lock:
            before = self.catalog.moved.get(template_id)
            self.catalog.release(template_id)
            self.save()
            over = [UnsubscribeRecord(one.id, reason, lost=True) for one in self.usage.instances(template_id)]
            tx = tx_of(self.log.next_offset, 0)
            self.subscriptions.close(over)
            self.strategies.note(template_id, before, tx, None)
