"""Dataflow: the state of one cell and the step that moves it.

Tables, arrangements, compiled templates and windows; changes in, emissions out. Output up to t is a function of the
input up to t, however the input is cut into steps. It never reads a clock, opens a socket or knows of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from headwater.engine import activation, checkpoint, demand, held_rows, moves, replan, subscriptions
from headwater.engine.checkpoint_document import SavedState
from headwater.engine.dataflow_state import DataflowState, Meter, Rows
from headwater.engine.emissions.index import Ending
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.operators.join.estimated_joins import Misestimate
from headwater.engine.requeried.answers import Answers
from headwater.engine.rows.delta import Delta
from headwater.engine.rows.work import Work
from headwater.engine.state.spill import Inside
from headwater.engine.step import step
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.template import Instance, Template


class Dataflow:
    """One cell's dataflow. `partition` is (q, Q): it keeps only what belongs to query partition q of Q."""

    def __init__(
        self, *, partition: tuple[int, int] = (0, 1), limits: Limits = DEFAULT, counters: Work | None = None
    ) -> None:
        self._state = DataflowState(partition, limits, counters or Work())

    @property
    def partition(self) -> tuple[int, int]:
        return self._state.partition

    @property
    def counters(self) -> Work:
        return self._state.counters

    @property
    def answers(self) -> Answers:
        """The windows that the source answers."""
        return self._state.answers

    @property
    def tables(self) -> dict[str, Table]:
        return self._state.tables

    def metered(self, meter: Meter) -> None:
        """From here on it is told which relation is stepped, with how many transactions."""
        self._state.meter = meter

    def define(self, table: Table) -> None:
        """A new table, or its new schema: columns appended, or turned ANY. Results do not change."""
        activation.define(self._state, table)

    def reshaped(self, table: Table) -> list[str]:
        """The relations that cannot follow a table's new schema: a column they read has another type."""
        return activation.reshaped(self._state, table)

    def knows(self, template_id: str) -> bool:
        return template_id in self._state.active

    def needs_rows(self, template: Template) -> bool:
        """False when the rows are here already, or no instance of the template can live here."""
        return activation.needs_rows(self._state, template)

    def activate(
        self,
        template: Template,
        rows: Rows | None,
        widths: Mapping[str, int] | None = None,
        order: JoinOrder | None = None,
    ) -> None:
        """`rows` are those of each table it reads, as they are now; None where `needs_rows` said no. `order` is the one
        in which the joins of its relation run, unless that is here already.

        A batch with a further column, `diff`, adds and removes rows: changes made since the others were read.
        """
        activation.activate(self._state, template, rows, widths, order)

    def activate_by_key(self, template: Template) -> None:
        """As `activate`, of a table that is held by key: its rows come with `fetch`."""
        activation.activate_by_key(self._state, template)

    def fetch(
        self, table: str, columns: tuple[str, ...], keys: Iterable[bytes], rows: Iterable[pa.RecordBatch]
    ) -> None:
        """The rows of some keys, as they are now, of a table that is held by key; or more of them, or changes since."""
        held_rows.fetch(self._state, table, columns, keys, rows)

    def let_go(self, table: str, columns: tuple[str, ...], keys: Iterable[bytes]) -> None:
        """Nobody asks for these keys any more: their rows go."""
        held_rows.let_go(self._state, table, columns, keys)

    def adopt(self, template: Template, other: Dataflow) -> None:
        """As `activate`, where it needs rows: takes over those of `other`, which is at the same transaction."""
        activation.adopt(self._state, template, other._state)

    def lacks_rows(self, template: Template) -> bool:
        """Whether `replan` needs the rows of the tables of a template."""
        return replan.lacks_rows(self._state, template)

    def replan(self, template: Template, order: JoinOrder, rows: Rows | None) -> None:
        """The joins of its relation run in this order from here on; nothing is emitted. `rows` as for `activate`, where
        it lacks them."""
        replan.replan(self._state, template, order, rows)

    def adopt_plan(self, template: Template, other: Dataflow) -> None:
        """As `replan`: takes over the operators of `other`, which is at the same transaction."""
        replan.adopt(self._state, template, other._state)

    def misestimate(self, relation: str) -> Misestimate | None:
        """The join of a relation whose rows are furthest from the estimate by which its order was chosen."""
        return replan.misestimate(self._state, relation)

    def release(self, name: str, tx: int) -> list[int]:
        """A template goes, with what is held for it alone; the instances it still had end without an emission."""
        ended = activation.release(self._state, name)
        demand.depart(self._state, tx)
        return ended

    def drop(self, table: str, tx: int, reason: str, how: Ending = "closed") -> list[int]:
        """The instances that end with their table, or with a relation over it; the subscribers of each are told why."""
        ended = activation.drop(self._state, table, tx, reason, how)
        demand.depart(self._state, tx)
        return ended

    def expel(self, name: str, tx: int, reason: str) -> None:
        """A table, a relation or one template ends here; other templates over the same rows go on."""
        activation.expel(self._state, name, tx, reason)
        demand.depart(self._state, tx)

    def subscribe(self, instance: Instance, tx: int) -> bool:
        """Hydrates from the arrangement; the result is in the next take. False: it belongs to another partition."""
        came = demand.arrive(self._state, instance, tx)
        subscribed = subscriptions.subscribe(self._state, instance, tx, came)
        demand.depart(self._state, tx)
        return subscribed

    def unsubscribe(self, instance_id: int, tx: int) -> None:
        subscriptions.unsubscribe(self._state, instance_id)
        demand.depart(self._state, tx)

    def ask(self, template_id: str, tx: int, position: int) -> None:
        """The source answers all windows of a template from here on: see `moves`."""
        moves.ask(self._state, template_id, tx, position)

    def ask_one(self, instance_id: int, tx: int, position: int) -> None:
        """The source answers this window from here on, where it was followed."""
        moves.ask_one(self._state, instance_id, tx, position)

    def follow(self, template_id: str, tx: int) -> list[Instance]:
        """The windows of an active template that the source answered are followed change by change from here on."""
        return moves.follow(self._state, template_id, tx)

    def snapshot(self, instance_id: int) -> None:
        """The full result again, under the seq and prev of the last emission."""
        subscriptions.snapshot(self._state, instance_id)

    def step(self, deltas: Mapping[str, Sequence[Delta]]) -> None:
        """Everything that waits, of any number of transactions, `tx` ascending within a table."""
        step(self._state, deltas)
        if self._state.departed:
            demand.depart(self._state, max(part.last_tx for parts in deltas.values() for part in parts))

    def take(self) -> EmissionBatch:
        """What was emitted since the last take."""
        return self._state.outbox.take()

    def save(self, directory: Path) -> SavedState:
        """Writes the runs not yet written, and drops runs from memory until the rest is within the limit. Take what was
        emitted first: it is not part of the state."""
        return checkpoint.save(self._state, directory)

    def inside(self, directory: Path) -> Iterator[Inside]:
        """The runs that were saved and are still in memory."""
        return checkpoint.runs_inside(self._state, directory)

    @classmethod
    def load(
        cls,
        directory: Path,
        document: bytes,
        *,
        partition: tuple[int, int] = (0, 1),
        limits: Limits = DEFAULT,
        counters: Work | None = None,
    ) -> Dataflow:
        """The dataflow that was saved. Windows are read from the arrangements; nothing is emitted."""
        flow = cls(partition=partition, limits=limits, counters=counters)
        checkpoint.load(flow._state, directory, document)
        return flow
