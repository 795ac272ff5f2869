"""What each control record of the log does to a cell: its tables, templates, windows and leases.

It appends nothing: what comes of a record is emitted with the step that it is part of.
"""

from __future__ import annotations

import logging
from typing import assert_never

from headwater.engine.checkpoint_document import OtherFormat
from headwater.engine.dataflow import Dataflow
from headwater.engine.dataflow_state import Rows
from headwater.engine.emissions.index import Ending, Entry
from headwater.engine.step import Blame
from headwater.engine.windows.partition import home
from headwater.log.record import Kind, Record, tx_of
from headwater.model.errors import Corrupt
from headwater.model.schema import Table
from headwater.pipeline.activation.hydration import fetched_rows, logged_since, rows_at
from headwater.pipeline.activation.offline_build import OfflineBuild, taken_over
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.cell.expulsion import placed
from headwater.pipeline.cell.positions import StepPositions
from headwater.pipeline.cell.window_leases import Leases
from headwater.pipeline.records.control import (
    Activate,
    AnswerRecord,
    CaptureRecord,
    EndEpoch,
    Expel,
    FetchRecord,
    Hydration,
    MoveRecord,
    Release,
    Schema,
    SubscribeRecord,
    Tick,
    UnsubscribeRecord,
    Unwant,
    decode_control,
)
from headwater.plan.planner import logged_template
from headwater.plan.strategy import ASKED
from headwater.plan.template import Instance, Template

_GONE = "its table was changed or dropped while the query was set up"
_log = logging.getLogger("headwater.cell")


class ControlRecords:
    """`ended_boot` is the last boot whose end was read, `ends` how many windows have ended. `banned` are the templates
    that were just expelled, and why."""

    def __init__(
        self,
        config: CellConfig,
        dataflow: Dataflow,
        leases: Leases,
        positions: StepPositions,
        ended_boot: int,
    ) -> None:
        self._config, self._dataflow, self._leases, self._positions = config, dataflow, leases, positions
        self._applied = 0  # before the step that a record is part of
        self.ended_boot, self.ends = ended_boot, 0
        self.banned: dict[str, str] = {}
        self._refused: list[Entry] = []

    def take_refused(self) -> list[Entry]:
        """The ends of windows that never began."""
        refused, self._refused = self._refused, []
        return refused

    def apply(self, record: Record, applied: int) -> None:
        """One record of the step that begins after log offset `applied`."""
        self._applied = applied
        self._positions.control(record.offset)
        _log.debug("cell %d reads %s at offset %d", self._config.number, record.kind.name, record.offset)
        if record.kind in (Kind.REPORT, Kind.LEASE, Kind.SNAPSHOT, Kind.DIFFS):
            return
        match decode_control(record):
            case CaptureRecord(table):
                self._define(table)
            case Activate() as activate:
                self._activate(activate, record.offset)
            case SubscribeRecord() | UnsubscribeRecord() | AnswerRecord() | MoveRecord() as of_windows:
                self._apply_to_windows(of_windows, record.offset)
            case FetchRecord() | Unwant() as keys:
                self._hold_keys(keys, record.offset)
            case Schema() as schema:
                self._reshape(schema, tx_of(record.offset, 0))
            case Tick() | Release() | EndEpoch() | Expel() as end:
                self._let_go(end, tx_of(record.offset, 0))
            case never:
                assert_never(never)

    def _let_go(self, end: Tick | Release | EndEpoch | Expel, tx: int) -> None:
        match end:
            case Tick(boot):
                self._expire(boot, tx)
            case Release(template):
                self._release(template, tx)
            case EndEpoch(boot):
                self.ended_boot = boot
            case Expel():
                pass  # read when the cell was made: it counts at an earlier record

    def _apply_to_windows(
        self, control: SubscribeRecord | UnsubscribeRecord | AnswerRecord | MoveRecord, offset: int
    ) -> None:
        tx = tx_of(offset, 0)
        match control:
            case SubscribeRecord() as subscribe:
                self._subscribe(subscribe, offset)
            case UnsubscribeRecord(instance, reason, lost):
                self._dataflow.answers.close(instance, tx, reason, _ending(lost))
                self._end(instance, tx)
            case AnswerRecord(instance, position, rows, parts, renamed):
                self._positions.answer(offset, position)
                self._dataflow.answers.answer(instance, rows, tx, position, parts, renamed)
            case MoveRecord() as move:
                self._move(move, tx)
            case never:
                assert_never(never)

    def _define(self, table: Table) -> None:
        if table.name not in self._dataflow.tables:
            self._dataflow.define(table)

    def _reshape(self, schema: Schema, tx: int) -> None:
        """Relations that cannot follow a table's new types begin again, planned with these."""
        if schema.after is None:
            self._dataflow.drop(schema.table, tx, schema.reason, _ending(schema.lost))
            return
        for relation in self._dataflow.reshaped(schema.after):
            self._dataflow.drop(relation, tx, schema.reason, "lost")
        self._dataflow.define(schema.after)

    def _activate(self, activate: Activate, here: int) -> None:
        for hydration in activate.tables:
            self._define(hydration.table)
        template = logged_template(activate.template, activate.sql, self._dataflow.tables)
        if activate.replanned:
            self._replan(activate, template, here)
            return
        if self._dataflow.knows(template.id) or template.id in self.banned:
            return
        if any(hydration.by_key for hydration in activate.tables):
            self._dataflow.activate_by_key(template)
            return
        with placed(self._applied), Blame(template.id):
            side = self._built(activate, template, here) if self._dataflow.needs_rows(template) else None
            if side is not None:
                self._dataflow.adopt(template, side)
            else:
                self._dataflow.activate(template, self._rows(activate, template, here), order=activate.order)

    def _replan(self, activate: Activate, template: Template, here: int) -> None:
        """Another order of joins; nothing where the template has ended here."""
        if not self._dataflow.knows(template.id) or activate.order is None:
            return
        with placed(self._applied), Blame(template.id):
            side = self._built(activate, template, here)
            if side is not None:
                self._dataflow.adopt_plan(template, side)
                return
            lacks = self._dataflow.lacks_rows(template)
            rows = rows_at(self._config.layout, activate, self._dataflow.tables, here) if lacks else None
            self._dataflow.replan(template, activate.order, rows)

    def _hold_keys(self, keys: FetchRecord | Unwant, here: int) -> None:
        """Of a table that is held by key, some keys come or go."""
        if isinstance(keys, Unwant):
            self._dataflow.let_go(keys.table, keys.columns, keys.keys)
        elif (table := self._dataflow.tables.get(keys.table.name)) is not None:
            self._fetch(keys, table, here)

    def _fetch(self, fetched: FetchRecord, table: Table, here: int) -> None:
        """What was logged of the table since its rows were read, all of it, brings them to this record."""
        with placed(self._applied), Blame(table.name):
            rows = [*fetched_rows(fetched, table)]
            if fetched.last:
                read = Hydration(table, position=fetched.position, since=fetched.since)
                rows += logged_since(self._config.layout.log, table, read, here)
            self._dataflow.fetch(table.name, fetched.columns, fetched.keys, rows)

    def _rows(self, activate: Activate, template: Template, here: int) -> Rows | None:
        if not self._dataflow.needs_rows(template):
            return None
        return rows_at(self._config.layout, activate, self._dataflow.tables, here)

    def _built(self, activate: Activate, template: Template, here: int) -> Dataflow | None:
        """What was built beside us, taken to this record. None where it does not fit the tables as we know them, or
        cannot be read: then there are the rows."""
        layout, partition = self._config.layout, self._dataflow.partition
        built = activate.built_for(partition[0])
        if built is None:
            return None
        try:
            side = OfflineBuild.loaded(built, layout, self._config.limits, partition, self._dataflow.counters)
            if any(side.flow.tables[name] != self._dataflow.tables[name] for name in template.tables):
                return None
            taken_over(built, layout, layout.state(self._config.number))
        except OtherFormat as error:
            _log.info("building template %s from its rows: %s", template.id, error)
            return None
        except Corrupt as error:
            _log.error("rebuilding template %s from its rows: %s", template.id, error)
            return None
        side.follow(here)
        return side.flow

    def _subscribe(self, subscribe: SubscribeRecord, offset: int) -> None:
        if subscribe.answered:
            self._answered(subscribe, tx_of(offset, 0))
            return
        if not self._dataflow.knows(subscribe.template):
            self._refuse(subscribe, offset)
            return
        instance = _instance(subscribe)
        self._dataflow.answers.unsubscribe(instance.id)  # it was answered until now, and is followed from here on
        with placed(self._applied), Blame(instance.template):
            subscribed = self._dataflow.subscribe(instance, tx_of(offset, 0))
        if subscribed:
            self._leases.grant(instance.id, subscribe.boot)
            self._positions.ask(instance.id)

    def _answered(self, subscribe: SubscribeRecord, tx: int) -> None:
        """One that may be followed again lives where it then does; where it was followed until now, its rows stay."""
        partition, origin = subscribe.partition, None
        if partition is None:
            partition = home(subscribe.template, self._config.grid.queries)
        else:
            origin = _instance(subscribe)
            self._dataflow.ask_one(subscribe.instance, tx, self._positions.last)
        if partition == self._config.grid.partition(self._config.number)[0]:
            window = subscribe.template, subscribe.ordered, subscribe.keys
            self._dataflow.answers.subscribe(subscribe.instance, *window, origin)
            self._leases.grant(subscribe.instance, subscribe.boot)
            known = self._dataflow.answers.answered_at(subscribe.instance)
            self._positions.ask(subscribe.instance, known)

    def _move(self, move: MoveRecord, tx: int) -> None:
        """Where a template that is to be followed is not here any more, its windows begin anew."""
        if move.strategy in ASKED:
            self._dataflow.ask(move.template, tx, self._positions.last)
        elif self._dataflow.knows(move.template):
            with placed(self._applied), Blame(move.template):
                for instance in self._dataflow.follow(move.template, tx):
                    self._positions.ask(instance.id)
        else:
            for instance in self._dataflow.answers.origins(move.template):
                self._dataflow.answers.close(instance.id, tx, _GONE, "lost")
                self._leases.end(instance.id)

    def _refuse(self, subscribe: SubscribeRecord, offset: int) -> None:
        """Its table went away, or began anew, between the asking and this record: it is asked for again, which tells.
        No cell owns it: the first one answers."""
        banned, tx = self.banned.get(subscribe.template), tx_of(offset, 0)
        if banned is not None:
            self._refused.append(Entry(subscribe.instance, tx, 0, "closed", subscribe.template, banned))
        elif self._config.number == 0:
            self._refused.append(Entry(subscribe.instance, tx, 0, "lost", subscribe.template, _GONE))

    def _expire(self, boot: int, tx: int) -> None:
        for instance in self._leases.before(boot):
            self._end(instance, tx)

    def _release(self, template: str, tx: int) -> None:
        for instance in self._dataflow.release(template, tx):
            self._leases.end(instance)

    def _end(self, instance: int, tx: int) -> None:
        self.ends += 1
        self._leases.end(instance)
        self._dataflow.unsubscribe(instance, tx)
        self._dataflow.answers.unsubscribe(instance)


def _instance(subscribe: SubscribeRecord) -> Instance:
    return Instance(subscribe.instance, subscribe.template, subscribe.values, subscribe.limit, subscribe.offset)


def _ending(lost: bool) -> Ending:
    """How a window ends: for good, or to begin anew."""
    return "lost" if lost else "closed"
