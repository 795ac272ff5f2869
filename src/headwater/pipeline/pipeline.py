"""The pipeline of one source: capture, log, activation of templates, subscriptions as records, and the runner.

It returns no results: the hub of the gateway reads them from the diff partitions.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from headwater.engine.windows.partition import partition_of
from headwater.model.errors import LogError, SourceError
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.pipeline.activation.activator import Activator, Outdated
from headwater.pipeline.activation.captured_tables import CapturedTables
from headwater.pipeline.activation.hydration import Progress, say_progress
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.activation.offload import Offload
from headwater.pipeline.by_key.door import let_through
from headwater.pipeline.by_key.eviction import KeyEviction
from headwater.pipeline.by_key.explanation import by_key_notes
from headwater.pipeline.by_key.fetcher import KeyFetcher
from headwater.pipeline.by_key.held_keys import HeldKeys
from headwater.pipeline.by_key.recovered_keys import logged_fetches, recovered_keys
from headwater.pipeline.capture import Capture
from headwater.pipeline.data_dir.catalog import Known
from headwater.pipeline.data_dir.format import claim_format
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import DirectoryLock, Layout
from headwater.pipeline.moves.mover import Mover
from headwater.pipeline.moves.strategy_moves import StrategyMoves
from headwater.pipeline.planning.current_strategies import CurrentStrategies
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.planning.quarantine import Quarantine
from headwater.pipeline.planning.query_planner import QueryPlanner
from headwater.pipeline.records.control import EndEpoch, Expel
from headwater.pipeline.records.control_log import ControlLog
from headwater.pipeline.recovery.open_log import open_log
from headwater.pipeline.requery.requery import Requery
from headwater.pipeline.retention import Retention
from headwater.pipeline.runners.runner import Job, Runner
from headwater.pipeline.schema_log import SchemaLog
from headwater.pipeline.subscriptions import Subscriptions
from headwater.pipeline.template_release import TemplateRelease
from headwater.pipeline.template_usage import TemplateUsage
from headwater.plan.planner import Planned
from headwater.plan.requery_whole import ASKED, Requeried
from headwater.runtime.vital_thread import first_failure
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, NotCaptured, Source
from headwater.sql.syntax.parameters import Given

_LEASE_S = 60.0
_PLANS_MAX = 3  # of one query, while its tables turn out to be other than they were said to be
_log = logging.getLogger("headwater.pipeline")


class Pipeline:
    def __init__(
        self,
        source: Source,
        data_dir: Path,
        runner: Callable[[Job], Runner],
        *,
        grid: Grid | None = None,
        epoch_s: float = 60.0,
        master: str | None = None,
        limits: Limits = DEFAULT,
        options: PlanOptions | None = None,
        on_hydrated: Progress | None = None,
    ) -> None:
        self._options = (options or PlanOptions()).checked()
        self.source, self.limits, self.grid = source, limits, (grid or Grid()).checked()
        self.layout = Layout(data_dir)
        self.source_lag_bytes = 0  # as of the last look
        self.settle: Callable[[], object] = lambda: None  # returns once the cells have taken what is in the log
        self._turns, self._usage, self._quarantine = KeyedLock(), TemplateUsage(), Quarantine()
        self._offload = Offload(self.layout, self.grid.queries, limits)
        with contextlib.ExitStack() as opened:
            lock = DirectoryLock(data_dir)
            opened.callback(lock.release)
            claim_format(data_dir)
            self.layout.tighten()
            found = open_log(source, self.layout, self.grid, limits)
            self._log, self._catalog = found.writer, found.catalog
            opened.enter_context(self._log)
            self._connect(found.position, on_hydrated or say_progress)
            self.runner = runner(Job(self.layout, self.grid, self.boot, epoch_s, master, limits))
            self.runner.on_poison = self._expel
            self._opened = opened.pop_all()
        self._retention = self._retained()
        self._expires_at: float | None = None

    def _connect(self, position: int, progress: Progress) -> None:
        """The parts that work on the log, each with what it tells the others."""
        source, catalog, limits, save = self.source, self._catalog, self.limits, self._save
        self._controls = log = ControlLog(self._log)
        self._held = held = HeldKeys(recovered_keys(self.layout) if catalog.by_key else {})
        self.capture = capture = Capture(
            source,
            self._log,
            position,
            limits,
            lambda schema: self._schemas.changed(schema),
            lambda changes, tables: self._requery.windows.changed(changes, tables),
            lambda: self._schemas.redefined(),
            partial(let_through, held, catalog.by_key),
        )
        capture.tables = catalog.tables
        reached = capture.reached, capture.reached_soon
        self._requery = Requery(
            source, log.append_many, *reached, self._give_up, limits, self._relearned, lambda: self.settle()
        )
        self.strategies = strategies = CurrentStrategies(catalog)
        windows = self._requery.windows
        self._planner = planner = QueryPlanner(
            source, catalog, capture, lambda: windows.redefinitions, self._options, strategies
        )
        self.keys = keys = KeyFetcher(source, catalog, log, capture, held, self._turns, self._keep)
        self._eviction = KeyEviction(source, catalog, log, held, self._turns, limits)
        self._subscriptions = Subscriptions(
            log, planner, windows, self._usage, keys, strategies, self._partition_of, catalog.boot
        )
        self._schemas = SchemaLog(catalog, held, planner, windows, self._subscriptions, save)
        self._templates = TemplateRelease(catalog, log, self._usage, self._turns, capture.lock, save, self._eviction)
        forget, fetched = planner.forget_plans, partial(logged_fetches, self.layout)
        self._tables = CapturedTables(source, catalog, log, capture.lock, save, forget, held, fetched, capture.end)
        read = source, catalog, log, capture, self._tables, self._offload, self._turns, self.grid.queries
        sizes = planner.declared, limits.partial_rows_min
        self._activator = Activator(*read, save, self._keep, progress, *sizes, self._options.order)
        shared = catalog, log, strategies, planner, windows, self._usage, self._turns, capture
        self.moves = StrategyMoves(*shared, self._activator, self._subscriptions, save)
        self.mover = Mover(self.moves, source, limits, self._options)

    def _retained(self) -> Retention:
        return Retention(
            self.layout,
            self.grid.cells,
            self._log,
            self.source,
            lambda: self.capture.position,
            lambda: self._turns.floor,
            self._settled,
            self._rest,
            self.watch_lag,
        )

    # — how it is

    @property
    def boot(self) -> int:
        return self._catalog.boot

    @property
    def gen(self) -> int:
        return self._catalog.gen

    def names(self, template: str) -> tuple[str, ...] | None:
        """The output names of an active template."""
        known = self._catalog.templates.get(template)
        return known.names if known is not None else None

    @property
    def templates(self) -> int:
        """How many are active."""
        return len(self._catalog.templates)

    @property
    def log_offset(self) -> int:
        return self._log.next_offset

    @property
    def failure(self) -> str | None:
        """Why changes do not reach subscribers just now, if so: what is told everywhere, in the same words."""
        ours = self.capture.thread, self._retention.thread, self.mover.thread
        threads = (*ours, *self._requery.threads, *self.runner.threads)
        return self.capture.failure or self.capture.stall or self.runner.failure or first_failure(threads)

    @property
    def unanswered(self) -> Mapping[int, str]:
        """The windows that the source could not be asked for just now, and why."""
        return self._requery.windows.failures

    def is_reachable(self) -> bool:
        """The source answers."""
        try:
            self.source.position()
        except SourceError:
            return False
        return True

    # — start and end

    def start(self) -> None:
        self._tables.recapture()
        self.moves.resume()
        self.capture.start()
        self.runner.start()
        self._requery.start()
        self.mover.start()
        self._expires_at = time.monotonic() + _LEASE_S  # not before: who waits for a slow start may resume after it
        self._retention.start()

    def close(self) -> None:
        """Ends the cells through the log, then lets go of everything."""
        with self._opened:
            self._opened.callback(self.source.close)
            self._offload.stop()
            self.mover.stop()
            self._retention.stop()
            self.capture.stop()
            self._requery.stop()
            self.runner.stop(self._end())

    def _end(self) -> int:
        """The offset of the end record; where none can be written any more, the cells are stopped without."""
        try:
            return self._controls.append(EndEpoch(self.boot))
        except LogError as error:
            _log.error("could not write the end record; stopping cells: %s", error)
            return self._log.next_offset

    # — plans

    def plan(self, sql: str, params: Given = ()) -> Planned:
        """With the text it was made from, so that it can be planned again."""
        return self._planner.plan(sql, params)

    def has_plan(self, sql: str, params: Given = ()) -> bool:
        """The query was planned before: the source need not be asked for it."""
        return self._planner.has_plan(sql, params)

    def replanned(self, planned: Planned) -> Planned:
        """The same plan where it fits the tables we capture now, else a new one from the query's text."""
        return self._planner.replanned(planned)

    def explain(self, sql: str, params: Given = (), analyze: bool = False) -> str:
        return self._planner.explain(sql, params, analyze, partial(by_key_notes, self._activator))

    def effective(self, planned: Planned) -> str:
        """What the source is asked for to see whether we are right."""
        return self._planner.effective(planned)

    def table(self, name: str) -> Table | None:
        """A table of the source; none where the name is a relation's."""
        return self._planner.tables().get(name)

    def cell_of(self, planned: Planned) -> int:
        return self._partition_of(planned) * self.grid.writes

    def _partition_of(self, planned: Planned) -> int:
        return partition_of(planned.template, planned.instance, self.grid.queries)

    def ask(self, sql: str, params: Given = ()) -> Answer:
        """A query that is not live, answered by the source."""
        return self.source.query(sql, params, Cancellation(self.limits.question_ms_max / 1000))

    # — subscriptions

    def subscribe(self, *planned: Planned, clients: Mapping[int, int] | None = None) -> None:
        """Appends the subscriptions; a result, or a snapshot, comes out of the cell of each. `clients`, by instance:
        for whom the source is asked, so that each has a share of its questions."""
        self._subscriptions.begin(planned, clients or {}, self.activate)

    def unsubscribe(self, *instances: int) -> None:
        self._subscriptions.end(*instances)

    def is_ending(self, planned: Planned) -> bool:
        """Its window, where there is one, is about to end: who asks for it now is to begin anew."""
        return planned.template.id not in self._catalog.templates or self._subscriptions.is_ending(planned.instance.id)

    def passed(self, instance: int) -> None:
        """The end of its window was read, and another window has begun or is about to."""
        self._subscriptions.passed(instance)

    def ended(self, *instances: int) -> None:
        """Nobody is subscribed to them any more."""
        self._subscriptions.ended(*instances)

    def _give_up(self, instance: int, reason: str) -> None:
        """The source has no answer for it: what we can follow, we do."""
        query = self._planner.requeried.get(instance)
        if query is not None and query.moved:
            self.mover.retreat(query.template, reason)
        else:
            self._subscriptions.give_up(instance, reason)

    def right_through(self, instance: int, to: int, position: int) -> int:
        """The position that a window which the source answers is right for, to a reader of its cell up to `to`."""
        return self._requery.windows.right_through(instance, to, position)

    # — activation

    def prepare(self, planned: Planned) -> Planned:
        """Activates the template. Types that a table is only declared to have show when it is captured: then the query
        is planned again."""
        for _ in range(_PLANS_MAX - 1):
            try:
                self.activate(planned)
                return planned
            except Outdated:
                planned = self.plan(planned.text, planned.given)
            except NotCaptured:
                self.capture.reached(self.source.position())  # by then its end is logged, and it can be captured again
                planned = self.plan(planned.text, planned.given)
        self.activate(planned)
        return planned

    def activate(self, planned: Planned) -> None:
        """Makes the template known to the cells, with the rows its table has; once."""
        planned = self.strategies.at(planned)
        template = planned.template
        if self._is_known(planned):
            return
        self._quarantine.check(template.id, template.table)
        with self._turns.of(template.table):
            if self._is_known(planned):
                return
            self._usage.rest(template.id)
            if planned.strategy in ASKED:
                self._watch(self._planner.question(planned))
            else:
                self._activator.activate(planned)

    def _is_known(self, planned: Planned) -> bool:
        """A query that the source answers may read other tables than before: those of a view that was redefined."""
        known = self._catalog.templates.get(planned.template.id)
        if known is None or planned.strategy not in ASKED:
            return known is not None
        return self._planner.question(planned).mask.keys() <= known.tables

    def _watch(self, query: Requeried) -> None:
        """The tables it reads are captured, so that we hear when to ask again."""
        self._tables.captured(query.mask)
        self._catalog.templates[query.template] = Known(query.template, frozenset(query.mask), query.names)
        self._save()

    def _keep(self, offset: int, since: int, files: Iterable[str]) -> None:
        """What an activation at this log offset reads is not cleared away."""
        self._retention.activated(offset, since, files)

    def lost(self, planned: Planned) -> None:
        """A relation that ended in its cell is read anew when somebody asks again."""
        if planned.strategy not in ASKED:
            self._templates.lost(planned.template)

    def _expel(self, expel: Expel) -> None:
        """What a cell cannot get past ends there; over budget, it is refused for a while."""
        if expel.over_budget:
            self._quarantine.hold(expel.name, expel.reason)
        self._templates.expel(expel)

    def _relearned(self, query: Requeried) -> Requeried:
        """What a query that the source answers reads now that views or functions may be others, its tables captured."""
        found = self._planner.relearned(query)
        self._watch(found)
        self._planner.requeried[found.instance] = found
        return found

    # — from time to time

    def _rest(self) -> None:
        """What nobody needs any more ends; what fails is tried again the next time."""
        if self._expires_at is not None and time.monotonic() >= self._expires_at:
            self._templates.expire()
            self._expires_at = None
        if self._expires_at is None:
            self.evict()
        self.release()

    def release(self) -> None:
        """Lets go of the templates that nobody has been subscribed to for long: in the log, so in all cells."""
        self._templates.release_idle(self.limits.template_idle_ms / 1000)

    def evict(self) -> None:
        """Lets go of the keys that nobody has asked for so long, of tables that are held by key."""
        self._eviction.evict_idle()

    def watch_lag(self) -> None:
        """A source that keeps too much for us is freed of it: live queries begin anew, its disk does not fill."""
        self.source_lag_bytes = self.source.lag_bytes()
        limit = self.limits.slot_lag_bytes_max
        if self.source_lag_bytes > limit:
            reason = f"the source kept {self.source_lag_bytes:,} bytes of its log, more than {limit:,}: released"
            _log.error("%s", reason)
            self.source.abandon(reason)

    def _settled(self) -> None:
        """The position is kept beside the log: no frame may be left in it."""
        self._catalog.position = self.capture.position
        self._save()

    def _save(self) -> None:
        self._catalog.write(self.layout.catalog)
