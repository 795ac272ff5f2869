"""The pipeline of one source: capture, log, activation of templates, subscriptions as records, and the runner.

It answers nobody: what subscribers see is read from the diff partitions by the gateway's hub.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from headwater.engine.operators.join.pair_bound import pairs_at_most
from headwater.engine.requeried.keyed_rows import keys_of
from headwater.engine.windows.partition import home_of, partition_of
from headwater.log.record import FIRST_OFFSET, Kind
from headwater.log.segment import SegmentWriter
from headwater.model.change import Transaction
from headwater.model.errors import Corrupt, HeadwaterError, LogError, SourceError, SqlError
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.pipeline.activation.offload import Beside
from headwater.pipeline.activation.turns import Turns
from headwater.pipeline.capture import Capture, last_position
from headwater.pipeline.data_dir.catalog import Arranged, Catalog, Known, read_catalog
from headwater.pipeline.data_dir.format import claim_format
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.integrity import activations, check_cell
from headwater.pipeline.data_dir.layout import DirectoryLock, Layout
from headwater.pipeline.data_dir.leftovers import remove_left_over
from headwater.pipeline.planning.plan_cache import Plans
from headwater.pipeline.planning.quarantine import Quarantine
from headwater.pipeline.planning.strategy import explain_with, plan_followed, plan_with, relearned
from headwater.pipeline.records.control import (
    Activate,
    Control,
    EndEpoch,
    Expel,
    Hydration,
    Release,
    Schema,
    Subscribe,
    Tick,
    Unsubscribe,
    encode_control,
)
from headwater.pipeline.records.control import Capture as CaptureRecord
from headwater.pipeline.records.frame import encode_frames
from headwater.pipeline.requery.requery import Requery
from headwater.pipeline.retention import Retention
from headwater.pipeline.runners.runner import Job, Runner
from headwater.pipeline.template_usage import Living
from headwater.plan.planner import Planned, effective_sql, template_from_sql
from headwater.plan.requery_whole import ASKED, Requeried
from headwater.plan.template import Template
from headwater.runtime.vital_thread import first_failure
from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, ChangesLost, Source
from headwater.sql.syntax.parameters import Given

_LEASE_S = 60.0
_PLANS_MAX = 3  # of one query, while its tables turn out to be other than they were said to be
_log = logging.getLogger("headwater.pipeline")


class Outdated(SourceError):
    """A plan was made for tables that have other columns or types by now."""


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
        on_hydrated: Callable[[str, int], None] | None = None,
    ) -> None:
        self.source, self.limits, self.grid = source, limits, (grid or Grid()).checked()
        self.layout = Layout(data_dir)
        self.settle: Callable[[], object] = lambda: None  # returns once the cells have taken what is in the log
        self._turns, self._capturing = Turns(), Turns()
        self._declared: dict[str, Table] = {}
        self._plans = Plans(lambda sql, params: plan_followed(source, self._catalog.tables, sql, params))
        self._living = Living()
        self._quarantine = Quarantine()
        self.source_lag_bytes = 0  # as of the last look
        self._requeried: dict[int, Requeried] = {}
        self._ending: set[int] = set()  # windows whose end is logged, or about to be
        self._beside = Beside(self.layout, self.grid.queries, limits)
        self._progress = on_hydrated or (lambda table, rows: _log.debug("%s: %d rows read", table, rows))
        with contextlib.ExitStack() as opened:
            self._lock = DirectoryLock(data_dir)
            opened.callback(self._lock.release)
            claim_format(data_dir)
            self.layout.tighten()
            self._log, self._catalog, position = self._taken_up()
            opened.enter_context(self._log)
            self.capture = Capture(
                source,
                self._log,
                position,
                limits,
                self._on_schema,
                lambda changes, tables: self._requery.changed(changes, tables),
                lambda: self._redefined(),
            )
            reached = self.capture.reached, self.capture.reached_soon
            self._requery = Requery(
                source, self._append, *reached, self._give_up, limits, self._relearned, lambda: self.settle()
            )
            self.capture.tables = self._catalog.tables
            self.runner = runner(Job(self.layout, self.grid, self.boot, epoch_s, master, limits))
            self.runner.on_poison = self._expel
            self._opened = opened.pop_all()
        self._retention = Retention(
            self.layout,
            self.grid.cells,
            self._log,
            source,
            lambda: self.capture.position,
            lambda: self._turns.floor,
            self._settled,
            self._rest,
            self.watch_lag,
        )
        self._expires_at: float | None = None

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
        threads = (self.capture.thread, *self._requery.threads, self._retention.thread, *self.runner.threads)
        return self.capture.failure or self.capture.stall or self.runner.failure or first_failure(threads)

    @property
    def unanswered(self) -> Mapping[int, str]:
        """The windows that the origin could not be asked for just now, and why."""
        return self._requery.failures

    def start(self) -> None:
        for table in list(self._catalog.tables):
            self._recapture(table)
        self.capture.start()
        self.runner.start()
        self._requery.start()
        self._expires_at = time.monotonic() + _LEASE_S  # not before: who waits for a slow start may resume after it
        self._retention.start()

    def close(self) -> None:
        """Ends the cells through the log, then lets go of everything."""
        with self._opened:
            self._opened.callback(self.source.close)
            self._beside.stop()
            self._retention.stop()
            self.capture.stop()
            self._requery.stop()
            self.runner.stop(self._end())

    def _end(self) -> int:
        """The offset of the end record; where none can be written any more, the cells are stopped without."""
        try:
            return self._append(EndEpoch(self.boot))
        except LogError as error:
            _log.error("the cells are stopped without a word: %s", error)
            return self._log.next_offset

    def plan(self, sql: str, params: Given = ()) -> Planned:
        """With the text it was made from, so that it can be planned again."""
        planned = self._planned(sql, params)
        _log.debug("planned as %s, template %s: %s", planned.strategy, planned.template.id, sql)
        return replace(planned, text=sql, given=params)

    def replanned(self, planned: Planned) -> Planned:
        """The same plan where it fits the tables we capture now, else a new one from the query's text."""
        template = planned.template
        if planned.strategy not in ASKED and (
            not template.tables <= self._catalog.tables.keys() or _still_fits(template, self._catalog.tables)
        ):
            return planned
        return self.plan(planned.text, planned.given)

    def _planned(self, sql: str, params: Given) -> Planned:
        """Binds against the tables we capture; what these do not answer, against those the origin has now."""
        redefinitions = self._requery.redefinitions
        self._catch_up()
        try:
            return self._plans.plan(sql, params)
        except SqlError:
            self._declared = {table.name: table for table in self.source.tables()}
        planned, query = plan_with(self.source, self._tables(), sql, params)
        if query is not None:
            self._requeried[query.instance] = replace(query, learned=redefinitions)
        return planned

    def _catch_up(self) -> None:
        """A query that comes after a change of the schema is planned and begun with the tables as they are now."""
        try:
            position = self.source.schema_position()
        except SourceError:
            return  # what is live goes on with the rows of before, and says so
        if position > self.capture.position:
            self.capture.reached(position)

    def is_ending(self, planned: Planned) -> bool:
        """Its window, where there is one, is about to end: who asks for it now is to begin anew."""
        return planned.template.id not in self._catalog.templates or planned.instance.id in self._ending

    def explain(self, sql: str, params: Given = (), analyze: bool = False) -> str:
        self._declared = {table.name: table for table in self.source.tables()}
        return explain_with(self.source, self._tables(), sql, params, analyze)

    def table(self, name: str) -> Table | None:
        """A table of the origin; none where the name is a relation's."""
        return self._tables().get(name)

    def cell_of(self, planned: Planned) -> int:
        return partition_of(planned.template, planned.instance, self.grid.queries) * self.grid.writes

    def subscribe(self, *planned: Planned, clients: Mapping[int, int] | None = None) -> None:
        """Appends the subscriptions; a result, or a snapshot, comes out of the cell of each. `clients`, by instance:
        for whom the origin is asked, so that each has a share of its questions."""
        self._living.begin(one.instance for one in planned)
        try:
            for one in planned:
                self.activate(one)
            self._append_many(self._subscription(one) for one in planned)
        except HeadwaterError:
            self._living.end(*(one.instance.id for one in planned))
            raise
        for one in planned:
            if one.strategy in ASKED:
                self._requery.watch(self._question(one), (clients or {}).get(one.instance.id, 0))

    def ask(self, sql: str, params: Given = ()) -> Answer:
        """A query that is not live, answered by the origin."""
        return self.source.query(sql, params, Cancellation(self.limits.question_ms_max / 1000))

    def is_reachable(self) -> bool:
        """The origin answers."""
        try:
            self.source.position()
        except SourceError:
            return False
        return True

    def _subscription(self, planned: Planned) -> Subscribe:
        one = planned.instance
        plain = Subscribe(one.template, one.id, one.values, one.limit, one.offset, self.boot)
        if planned.strategy not in ASKED:
            return plain
        selection = self._question(planned).selection
        keys = selection and keys_of(selection)
        return msgspec.structs.replace(plain, answered=True, ordered=planned.template.ordered, keys=keys)

    def _question(self, planned: Planned) -> Requeried:
        """What the origin is asked. It went with its window, where that ended since the query was planned."""
        known = self._requeried.get(planned.instance.id)
        if known is None:
            self.plan(planned.text, planned.given)
            known = self._requeried.get(planned.instance.id)
        if known is None:
            raise Outdated(
                "expected the query to be planned as it was a moment ago, found its tables changed",
                hint="subscribe again",
            )
        return known

    def effective(self, planned: Planned) -> str:
        """What the origin is asked for to see whether we are right."""
        asked = self._requeried.get(planned.instance.id)
        return effective_sql(planned.template, planned.instance) if asked is None else asked.effective

    def unsubscribe(self, *instances: int) -> None:
        self._append_many(Unsubscribe(instance) for instance in instances)
        for instance in instances:
            self._requery.forget(instance)
            self._requeried.pop(instance, None)
        self.ended(*instances)

    def passed(self, instance: int) -> None:
        """The end of its window was read, and another window has begun."""
        self._ending.discard(instance)

    def ended(self, *instances: int) -> None:
        """Nobody is subscribed to them any more."""
        self._ending.difference_update(instances)
        self._living.end(*instances)

    def _rest(self) -> None:
        """What nobody needs any more ends; what fails is tried again the next time."""
        if self._expires_at is not None and time.monotonic() >= self._expires_at:
            self._expire()
            self._expires_at = None
        self.release()

    def release(self) -> None:
        """Lets go of the templates that nobody has been subscribed to for long: in the log, so in all cells."""
        with self._turns.nobody() as quiet:
            if not quiet:
                return  # what is activated just now may count on what a template without subscribers has
            with self._living.lock, self.capture.lock:
                idle = self._living.idle(self.limits.template_idle_ms / 1000)
                if idle:
                    self._release(idle)

    def _release(self, templates: Sequence[str]) -> None:
        """Forgotten here first: to read rows that the cells still have is no harm, to count on rows that they have not
        would be."""
        for template in templates:
            self._catalog.release(template)
        self._catalog.write(self.layout.catalog)
        self._living.forget(templates)
        self._append_many(Release(template) for template in templates)

    def watch_lag(self) -> None:
        """An origin that keeps too much for us is freed of it: live queries begin anew, its disk does not fill."""
        self.source_lag_bytes = self.source.lag_bytes()
        limit = self.limits.slot_lag_bytes_max
        if self.source_lag_bytes > limit:
            reason = (
                f"the origin kept {self.source_lag_bytes:,} bytes of its log for us, more than {limit:,}: let go of"
            )
            _log.error("%s", reason)
            self.source.abandon(reason)

    def lost(self, planned: Planned) -> None:
        """A relation that ended in its cell is read anew when somebody asks again."""
        template = planned.template
        if template.relation is not None and self._catalog.templates.pop(template.id, None) is not None:
            self._catalog.forget_relation(template.table)
            self._catalog.write(self.layout.catalog)

    def _expel(self, expel: Expel) -> None:
        """What a cell cannot get past ends there; who asks for it again, as soon as that can be read, begins anew."""
        if expel.over_budget:
            self._quarantine.hold(expel.name, expel.reason)
        self._catalog.expel(expel.name)
        self._append(expel)
        self._catalog.write(self.layout.catalog)

    def right_through(self, instance: int, to: int, position: int) -> int:
        """The position that a window which the origin answers is right for, to a reader of its cell up to `to`."""
        return self._requery.right_through(instance, to, position)

    def set_aside_diffs(self, cell: int) -> None:
        """Diffs that do not read any more: the cell, which must not run yet, begins anew with those after its state."""
        damaged = self.layout.diffs(cell)
        beside = damaged.with_name(f"{damaged.name}-damaged")
        shutil.rmtree(beside, ignore_errors=True)
        damaged.rename(beside)

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
        self.activate(planned)
        return planned

    def activate(self, planned: Planned) -> None:
        """Makes the template known to the cells, with the rows its table has; once."""
        template = planned.template
        if template.id in self._catalog.templates:
            return
        self._quarantine.check(template.id, template.table)
        with self._turns.of(template.table):
            if template.id in self._catalog.templates:
                return
            self._living.rest(template.id)
            activate = self._answering(planned) if planned.strategy in ASKED else self._reading(planned)
            if activate is not None:
                self._activated(template, activate)

    def _reading(self, planned: Planned) -> Activate:
        """Its tables captured, its query prepared by the origin, its rows read."""
        template = planned.template
        tables = [self._captured(table) for table in sorted(template.tables)]
        self.source.prepare(effective_sql(template, planned.instance))
        since = self._log.next_offset
        self._turns.reads(template.table, since)
        return self._hydrated(template, tables, since)

    def _answering(self, planned: Planned) -> Activate | None:
        """The tables it reads are captured, so that we hear when to ask again."""
        self._watched(self._question(planned))
        return None

    def _watched(self, query: Requeried) -> None:
        for table in sorted(query.mask):
            self._captured(table)
        self._catalog.templates[query.template] = Known(query.template, frozenset(query.mask), query.names)
        self._catalog.write(self.layout.catalog)

    def _redefined(self) -> None:
        self._declared = {}
        self._plans.forget()
        self._requery.redefined()

    def _relearned(self, query: Requeried) -> Requeried:
        """What a query that the origin answers reads now that views or functions may be others, its tables captured."""
        redefinitions = self._requery.redefinitions
        self._declared = {table.name: table for table in self.source.tables()}
        found = replace(relearned(self.source, self._tables(), query), learned=redefinitions)
        self._watched(found)
        self._requeried[found.instance] = found
        return found

    def _give_up(self, instance: int, reason: str) -> None:
        self._close([Unsubscribe(instance, reason)])

    def _close(self, over: Sequence[Unsubscribe], *first: Control) -> None:
        """Logs that these windows end, behind `first`. They are forgotten before anybody can read it: who then begins
        anew is not taken for them."""
        for one in over:
            self._requery.forget(one.instance)
            self._ending.add(one.instance)
        try:
            self._append_many([*first, *over])
        except HeadwaterError:
            self._ending.difference_update(one.instance for one in over)
            for query in filter(None, (self._requeried.get(one.instance) for one in over)):
                self._requery.watch(query)
            raise

    def _activated(self, template: Template, activate: Activate) -> None:
        """Logs the activation, once all that its rows hold is logged: what comes after it is not in them.

        Under capture's lock: a table that changes its shape is logged before or after.
        """
        if activate.position is not None:
            self.capture.reached(activate.position)
            pairs = _pairs_at_most(template, activate)
            built = self._beside.built(activate, self._partitions(template), self._log.next_offset, pairs)
            activate = msgspec.structs.replace(activate, built=built)
        tables = dict(self._catalog.tables)
        fits = _still_fits(template, tables)  # which takes a while for a long text: not under the lock
        with self.capture.lock:
            if any(self._catalog.tables.get(name) != tables.get(name) for name in template.tables):
                fits = _still_fits(template, self._catalog.tables)
            if not fits:
                raise Outdated(
                    f"expected {', '.join(sorted(template.tables))} to stay as they were while they were read, "
                    "found a change of columns",
                    hint="subscribe again",
                )
            self._retention.activated(self._append(activate), activate.since, activate.kept)
            rows = sum(one.rows for one in activate.tables)
            _log.debug("activated template %s: %d rows read, built %d times", template.id, rows, len(activate.built))
            arranged = self._arranged(template)
            self._catalog.arranged.add(arranged)
            names = tuple(output.name for output in template.outputs)
            self._catalog.templates[template.id] = Known(template.table, template.tables, names, arranged)
        self._catalog.write(self.layout.catalog)

    def _hydrated(self, template: Template, tables: Iterable[Table], since: int) -> Activate:
        if self._is_arranged(template):
            return Activate(template.id, template.sql, tuple(Hydration(table) for table in tables))
        names = [table.name for table in tables]
        read = self._beside.hydrated(self.source, names, since, self._progress)
        return Activate(template.id, template.sql, tuple(read))

    def _is_arranged(self, template: Template) -> bool:
        """The cells have the rows by these keys; those of a relation they can arrange anew by any."""
        wanted = self._arranged(template)
        return any(
            one.name == wanted.name
            and (one.keys == wanted.keys or template.relation is not None)
            and one.home in (None, wanted.home)
            for one in self._catalog.arranged
        )

    def _arranged(self, template: Template) -> Arranged:
        home = None if template.keys else home_of(template, self.grid.queries)
        return Arranged(template.table, template.keys, home)

    def _partitions(self, template: Template) -> tuple[int, ...]:
        """Those whose cells keep something of it."""
        count = self.grid.queries
        return tuple(range(count)) if template.keys else (home_of(template, count),)

    def _captured(self, name: str) -> Table:
        with self._capturing.of(name):
            return self._catalog.tables.get(name) or self._newly_captured(name)

    def _newly_captured(self, name: str) -> Table:
        table = self.source.capture(name)
        with self.capture.lock:
            self._catalog.tables[name] = table
            self._plans.forget()
            self._append(CaptureRecord(table))
        self._catalog.write(self.layout.catalog)
        return table

    def _on_schema(self, schema: Schema) -> None:
        """Logs it. What is over is forgotten first: to read anew what the cells still have is no harm, to count on what
        they have not would be."""
        self._declared = {}
        self._plans.forget()
        if schema.after is None:
            self._catalog.forget(schema.table)
            over = [Unsubscribe(one, schema.reason, schema.lost) for one in self._requery.reading(schema.table)]
        else:
            if schema.retyped:
                self._catalog.forget_relations(schema.table)
            reason = f"table {schema.table} has another key now"
            over = [Unsubscribe(one, reason, lost=True) for one in self._requery.outgrown(schema.after)]
        self._close(over, schema)
        self._catalog.write(self.layout.catalog)

    def _recapture(self, name: str) -> None:
        """A captured table that went away while we were down ends as if it had gone before our eyes."""
        try:
            self.source.capture(name)
        except SourceError as error:
            self._append(Schema(name, None, error.message, lost=isinstance(error, ChangesLost)))
            self._catalog.forget(name)

    # — the catalog and the log

    def _taken_up(self) -> tuple[SegmentWriter, Catalog, int]:
        """What an earlier life left, where the cells can go on from it; else all of it is made anew, of the origin's
        rows: what is damaged must never be counted on."""
        try:
            return self._opened_log()
        except Corrupt as error:
            _log.error("the data directory is damaged; live queries begin anew: %s", error.message)
            self.layout.clear()
            return self._opened_log()

    def _opened_log(self) -> tuple[SegmentWriter, Catalog, int]:
        self.layout.make(self.grid.cells)
        log = SegmentWriter(self.layout.log, limits=self.limits)
        try:
            catalog = self._opened_catalog(log)
            logged = activations(self.layout)
            remove_left_over(self.layout, {name for one in logged for name in one.activate.kept})
            for cell in range(self.grid.cells):
                check_cell(self.layout, cell, log, logged)
            self._attach(catalog)
            position = self._resumed_position(log, catalog.position)
            catalog.write(self.layout.catalog)
        except BaseException:
            log.close()
            raise
        return log, catalog, position

    def _attach(self, catalog: Catalog) -> None:
        self.source.attach(self.layout.root)
        kept = self.source.captured()
        if kept is not None and (lost := catalog.tables.keys() - kept):
            raise Corrupt(f"expected what is kept of captured tables, found nothing of {', '.join(sorted(lost))}")

    def _opened_catalog(self, log: SegmentWriter) -> Catalog:
        catalog = read_catalog(self.layout.catalog)
        if log.next_offset > FIRST_OFFSET if catalog is None else catalog.tables and log.next_offset == FIRST_OFFSET:
            raise Corrupt("expected the catalog beside its log, found one without the other")
        if catalog is None:
            catalog = Catalog(self.source.name, self.grid.cells, time.time_ns() // 1_000_000)
        if catalog.source != self.source.name:
            raise HeadwaterError(
                f"expected a data directory of {self.source.name}, found one of {catalog.source}",
                hint="give every source its own data_dir",
            )
        if catalog.cells != self.grid.cells:
            raise HeadwaterError(
                f"expected the grid this data directory was made with ({catalog.cells} cells), found {self.grid.cells}",
                hint="use the same --cells, or a fresh --data-dir",
            )
        catalog.boot += 1
        return catalog

    def _resumed_position(self, log: SegmentWriter, known: int | None) -> int:
        position = last_position(self.layout.log, known)
        found = self.source.position()
        if position is None:
            self._begin_at(log, found)
            return found
        if found < position:
            raise SourceError(
                f"expected the source at position {position} or later, found it at {found}: it is another database, "
                "or an older copy of it",
                hint="start with a fresh data directory",
            )
        return position

    def _begin_at(self, log: SegmentWriter, position: int) -> None:
        """A new log says where the source stands: it may be long before another transaction does."""
        if position:
            frames = encode_frames([Transaction(position, ())], {}, limits=self.limits)
            log.append_many([(Kind.FRAME, frame) for frame in frames])

    def _append(self, control: Control) -> int:
        return self._log.append(*encode_control(control))

    def _append_many(self, controls: Iterable[Control]) -> None:
        """One write and one fsync for all of them."""
        self._log.append_many([encode_control(control) for control in controls])

    def _settled(self) -> None:
        """The position is kept beside the log: no frame may be left in it."""
        self._catalog.position = self.capture.position
        self._catalog.write(self.layout.catalog)

    def _expire(self) -> None:
        """Subscriptions of an earlier life that nobody took up again end, and with them what only they needed."""
        self._append(Tick(self.boot))
        self._living.rest(*list(self._catalog.templates))

    def _tables(self) -> dict[str, Table]:
        return {**self._declared, **self._catalog.tables}


def _pairs_at_most(template: Template, activate: Activate) -> int:
    """That a relation's joins may have to compare, by the rows that were read."""
    if template.relation is None:
        return 0
    return pairs_at_most(template.relation, {one.table.name: one.rows for one in activate.tables})


def _still_fits(template: Template, tables: Mapping[str, Table]) -> bool:
    try:
        return template_from_sql(template.sql, dict(tables)).id == template.id
    except SqlError:
        return False
