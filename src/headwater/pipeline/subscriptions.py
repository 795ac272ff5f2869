"""Subscriptions as records of the log: a window begins with one record and ends with another.

It returns no results: these come from the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from headwater.engine.requeried.keyed_rows import keys_of
from headwater.log.record import tx_of
from headwater.model.errors import HeadwaterError
from headwater.pipeline.activation.activator import Outdated
from headwater.pipeline.by_key.fetcher import KeyFetcher
from headwater.pipeline.planning.current_strategies import CurrentStrategies
from headwater.pipeline.planning.query_planner import QueryPlanner
from headwater.pipeline.records.control import Control, SubscribeRecord, UnsubscribeRecord
from headwater.pipeline.records.control_log import ControlLog
from headwater.pipeline.requery.watched_windows import WatchedWindows
from headwater.pipeline.template_usage import TemplateUsage
from headwater.plan.planner import Planned
from headwater.plan.requery_whole import ASKED


class Subscriptions:
    def __init__(
        self,
        log: ControlLog,
        planner: QueryPlanner,
        asked: WatchedWindows,
        usage: TemplateUsage,
        keys: KeyFetcher,
        strategies: CurrentStrategies,
        partition: Callable[[Planned], int],
        boot: int,
    ) -> None:
        """`partition` tells in which query partition the window of a plan lives."""
        self._log, self._planner, self._asked, self._usage, self._boot = log, planner, asked, usage, boot
        self._keys = keys
        self._strategies, self._partition = strategies, partition
        self._ending: set[int] = set()  # windows whose end is logged, or about to be

    def is_ending(self, instance: int) -> bool:
        return instance in self._ending

    def begin(
        self, planned: Sequence[Planned], clients: Mapping[int, int], activate: Callable[[Planned], None]
    ) -> None:
        """Activates their templates and logs the subscriptions. `clients`, by instance: for whom the source is asked,
        so that each has a share of its questions."""
        self._usage.begin([one.instance for one in planned], [one.template for one in planned])
        try:
            self._prepare(planned, activate)
            with self._strategies.lock:
                self._log_begun([self._strategies.at(one) for one in planned], clients)
        except HeadwaterError:
            self._usage.end(*(one.instance.id for one in planned))
            self._keys.held.release(one.instance.id for one in planned)
            raise

    def _prepare(self, planned: Sequence[Planned], activate: Callable[[Planned], None]) -> None:
        """Their templates, and the rows that they ask for of tables held by key. Once more where such a table became
        whole meanwhile, with which its templates ended."""
        for is_last in (False, True):
            for one in planned:
                activate(one)
                self._prepare_question(self._strategies.at(one))
            try:
                self._keys.want(planned)
                return
            except Outdated:
                if is_last:
                    raise

    def _prepare_question(self, planned: Planned) -> None:
        """The source may have to be asked what a query reads: not while others wait for the lock."""
        if planned.strategy in ASKED:
            self._planner.question(planned)

    def _log_begun(self, planned: Sequence[Planned], clients: Mapping[int, int]) -> None:
        """Each by the strategy that its template has now."""
        for one in planned:
            self._strategies.begin(one.template.id, tx_of(self._log.next_offset, 0))
        self._log.append_many([self._record(one) for one in planned])
        for one in planned:
            if one.strategy in ASKED:
                self._asked.watch(self._planner.question(one), clients.get(one.instance.id, 0))

    def _record(self, planned: Planned) -> SubscribeRecord:
        one = planned.instance
        plain = SubscribeRecord(one.template, one.id, one.values, one.limit, one.offset, self._boot)
        if planned.strategy not in ASKED:
            return plain
        query = self._planner.question(planned)
        keys = query.selection and keys_of(query.selection)
        partition = self._partition(planned) if query.moved else None
        return msgspec.structs.replace(
            plain, answered=True, ordered=planned.template.ordered, keys=keys, partition=partition
        )

    def end(self, *instances: int) -> None:
        """Nobody wants them any more: logs their end."""
        self._log.append_many(UnsubscribeRecord(instance) for instance in instances)
        for instance in instances:
            self._asked.forget(instance)
            self._planner.requeried.pop(instance, None)
        self.ended(*instances)

    def passed(self, instance: int) -> None:
        """The end of its window was read, and another window has begun or is about to."""
        self._ending.discard(instance)

    def ended(self, *instances: int) -> None:
        """Nobody is subscribed to them any more."""
        self._ending.difference_update(instances)
        self._usage.end(*instances)
        self._keys.held.release(instances)

    def give_up(self, instance: int, reason: str) -> None:
        self.close([UnsubscribeRecord(instance, reason)])

    def close(self, over: Sequence[UnsubscribeRecord], *first: Control) -> None:
        """Logs that these windows end, behind `first`. They are forgotten before anybody can read it: who then begins
        anew is not taken for them."""
        for one in over:
            self._asked.forget(one.instance)
            self._ending.add(one.instance)
        try:
            self._log.append_many([*first, *over])
        except HeadwaterError:
            self._ending.difference_update(one.instance for one in over)
            for query in filter(None, (self._planner.requeried.get(one.instance) for one in over)):
                self._asked.watch(query)
            raise
