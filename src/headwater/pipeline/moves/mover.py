"""Decides which strategy is the cheaper one for the queries of a relation, in a thread of its own, and has them moved.

What a followed relation costs, its cells report: the CPU of its steps, and the transactions in them. What asking costs
is measured: before a move by one question, after it by every answer. Both are counted until they add up to much; then
the cheaper strategy is taken, if it costs less than half. Each move of a relation doubles what has to add up before the
next one. The cells never decide: what was decided is in the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from headwater.model.errors import HeadwaterError
from headwater.model.limits import Limits
from headwater.pipeline.moves.replanner import Replanner
from headwater.pipeline.moves.strategy_moves import StrategyMoves
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.requery.requeried_window import RequeriedWindow
from headwater.plan.planner import Planned
from headwater.plan.strategy import REQUERY
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Source

Costs = Mapping[str, tuple[int, ...]]  # by relation: see Report
_LOOK_S = 1.0
_STOP_S = 5.0
_HALF = 0.5
_TIMES_MAX = 6  # a relation that was moved so often waits as long as it ever does
_PROBE_S_MIN = 0.05  # to end a question sooner costs more than it saves
_log = logging.getLogger("headwater.moves")


@dataclass(slots=True)
class Spent:
    """On a relation since it was last weighed."""

    ms: float = 0.0
    transactions: int = 0


class Mover:
    """Where a strategy is forced, windows move only by `retreat`. It also has relations planned anew (`replanner`)."""

    def __init__(self, moves: StrategyMoves, source: Source, limits: Limits, options: PlanOptions) -> None:
        self._moves, self._source, self.limits, self._chooses = moves, source, limits, options.strategy is None
        self.replanner = Replanner(moves.activator, moves.turns, moves.usage, chooses=options.chooses_order)
        self._spent: dict[str, Spent] = {}
        self._times: dict[str, int] = {}
        self._retreats: dict[str, str] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self.thread = VitalThread("headwater-moves", self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.release()
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        if self.thread.is_alive():
            self.thread.join(_STOP_S)

    def spent(self, costs: Costs) -> None:
        """A cell has reported what it spent."""
        with self._changed:
            for relation, (us, transactions, *estimate) in costs.items():
                one = self._spent.setdefault(relation, Spent())
                one.ms += us / 1000
                one.transactions += transactions
                self.replanner.reported(relation, transactions, *estimate)

    def retreat(self, template: str, reason: str) -> None:
        """The source does not answer its query, which we can follow."""
        with self._changed:
            self._retreats[template] = reason
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._retreats or self._stop.is_set(), _LOOK_S)
            if not self._stop.is_set():
                self.look()

    def look(self) -> None:
        """Moves what is due. What fails is looked at again when it has cost as much again."""
        with self._changed:
            retreats, self._retreats = self._retreats, {}
        for template, reason in retreats.items():
            self._trying(template, partial(self._moves.follow, template, f"the database could not answer: {reason}"))
        for relation, reason in self.replanner.due(self.limits):
            self._trying(relation, partial(self.replanner.look, relation, reason))
        if self._chooses:
            for relation, spent in self._taken():
                self._trying(relation, partial(self._weigh_followed, relation, spent))
            for relation, templates in self._asked().items():
                self._trying(relation, partial(self._weigh_asked, relation, templates))

    def _trying(self, name: str, move: Callable[[], object]) -> None:
        try:
            move()
        except HeadwaterError as error:
            _log.warning("could not move %s to another strategy or plan: %s", name, error.message)
        except Exception:
            _log.exception("could not move %s to another strategy or plan", name)

    def _enough_ms(self, relation: str) -> float:
        return float(self.limits.move_ms_min << min(self._times.get(relation, 0), _TIMES_MAX))

    # — followed

    def _taken(self) -> list[tuple[str, Spent]]:
        with self._changed:
            due = [(name, one) for name, one in self._spent.items() if one.ms >= self._enough_ms(name)]
            for name, _ in due:
                del self._spent[name]
        return due

    def _weigh_followed(self, relation: str, spent: Spent) -> None:
        change_ms = spent.ms / max(1, spent.transactions)
        catalog = self._moves.catalog
        if change_ms < self.limits.follow_ms_max or relation in catalog.by_key:
            return
        templates = [id for id, known in list(catalog.templates.items()) if known.table == relation and known.arranged]
        asked_ms = self._asked_ms(templates, change_ms * _HALF)
        told = f"a transaction costs {change_ms:.1f} ms of CPU to follow, {asked_ms:.1f} ms to ask again"
        _log.debug("%s: %s", relation, told)
        if asked_ms > change_ms * _HALF:
            return
        times = self._times[relation] = self._times.get(relation, 0) + 1
        for template in templates:
            self._moves.ask(template, told, change_ms, times)

    def _asked_ms(self, templates: Sequence[str], most_ms: float) -> float:
        """What it would cost to ask for every window; more than `most_ms`, to whatever amount, where it is more."""
        weight, whole_ms = self.limits.asking_cost_percent / 100, 0.0
        for template in templates if weight else ():
            live = self._moves.usage.instances(template)
            found = self._moves.usage.template(template)
            if live and found is not None:
                query = self._moves.planner.moved.of(Planned(found, live[0], REQUERY))
                limit_s = max(_PROBE_S_MIN, most_ms / weight / len(live) / 1000)
                took_s = self._probe(query.asked, min(limit_s, self.limits.question_ms_max / 1000))
                whole_ms += took_s * 1000 * len(live) * weight
        return whole_ms

    def _probe(self, sql: str, limit_s: float) -> float:
        began_s = time.monotonic()
        try:
            self._source.query(sql, (), Cancellation(limit_s, self.limits.question_bytes_max))
        except HeadwaterError as error:
            _log.debug("not asked again: %s", error.message)
            return float("inf")
        return time.monotonic() - began_s

    # — asked

    def _asked(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for template, moved in list(self._moves.catalog.moved.items()):
            found.setdefault(moved.relation, []).append(template)
            self._times[moved.relation] = max(self._times.get(moved.relation, 0), moved.times)
        return found

    def _weigh_asked(self, relation: str, templates: Sequence[str]) -> None:
        windows = [one for template in templates for one in self._moves.windows.of_template(template)]
        weight = self.limits.asking_cost_percent / 100
        spent = Spent(sum(one.spent_s for one in windows) * 1000 * weight, _most_transactions(windows))
        if not spent.ms or spent.ms < self._enough_ms(relation):
            return
        for one in windows:
            one.spent_s, one.transactions = 0.0, 0
        followed_ms = spent.transactions * max(self._moves.catalog.moved[each].change_ms for each in templates)
        told = f"asking again took {spent.ms:.0f} ms, following {spent.transactions} transactions {followed_ms:.0f} ms"
        _log.debug("%s: %s", relation, told)
        if followed_ms < spent.ms * _HALF:
            self._times[relation] = self._times.get(relation, 0) + 1
            for template in templates:
                self._moves.follow(template, told)
        else:
            self._doubt(templates)

    def _doubt(self, templates: Sequence[str]) -> None:
        """What following cost was measured a while ago: it counts for less from now on, so that one day it is measured
        again."""
        moved = self._moves.catalog.moved
        for template in templates:
            if (one := moved.get(template)) is not None:
                moved[template] = msgspec.structs.replace(one, change_ms=one.change_ms * _HALF)


def _most_transactions(windows: Sequence[RequeriedWindow]) -> int:
    """At least so many would have been followed."""
    return max((one.transactions for one in windows), default=0)
