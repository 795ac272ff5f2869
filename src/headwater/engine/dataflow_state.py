"""DataflowState: what one cell's dataflow holds: tables, their rows, relations, active templates and windows.

Activation, subscriptions, the step and the checkpoint work on it. It answers questions about itself, and never emits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.engine.emissions.outbox import Outbox
from headwater.engine.operators.derived import Derived
from headwater.engine.requeried.answers import Answers
from headwater.engine.rows.arrays import Bools
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.table_store import TableStore
from headwater.engine.state.tally import Tally
from headwater.engine.windows.failing_groups import FailingGroups
from headwater.engine.windows.instance_index import InstanceIndex
from headwater.engine.windows.partition import home_of, partition_of, partition_salt
from headwater.engine.windows.row_identity import Multiset
from headwater.engine.windows.template_program import Program
from headwater.engine.windows.window import Window
from headwater.model.encoding.keys import Uint64s
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.plan.template import Instance, Template, key_columns

Rows = Mapping[str, Iterable[pa.RecordBatch]]  # by table
Meter = Callable[[str, int], AbstractContextManager[None]]
Place = tuple[str, tuple[str, ...]]  # a table or relation, and the columns by which its rows are arranged


@dataclass(slots=True)
class ActiveTemplate:
    """A template with its program, its instances, and those of them that ask for rows whose evaluation fails.

    `widths` are how many columns its tables had when it was bound, where its text counts on these."""

    template: Template
    program: Program
    widths: Mapping[str, int]
    instances: InstanceIndex
    affected: FailingGroups

    @property
    def place(self) -> Place:
        return self.template.table, self.template.keys


@dataclass(slots=True, eq=False)
class DataflowState:
    """`partition` is (q, Q): it holds only what belongs to query partition q of Q. `multisets` count the rows of tables
    without a key. `stores` hold the rows of tables and relations, each once; `arrangements` are indexes into them.
    `by_key` are the encoded keys whose rows are held, of the arrangements of tables that are held by key.
    `served` are the active templates by the arrangement that they read. `departed` are the windows that ended and whose
    demand is still counted: the relation, and what they asked for. `meter` is told which relation is stepped, with how
    many transactions."""

    partition: tuple[int, int]
    limits: Limits
    counters: Work
    schemas: dict[str, TableSchema] = field(default_factory=dict)
    derived: dict[str, Derived] = field(default_factory=dict)
    multisets: dict[str, Multiset] = field(default_factory=dict)
    stores: dict[str, TableStore] = field(default_factory=dict)
    arrangements: dict[Place, Arrangement] = field(default_factory=dict)
    by_key: dict[Place, set[bytes]] = field(default_factory=dict)
    active: dict[str, ActiveTemplate] = field(default_factory=dict)
    served: dict[Place, list[ActiveTemplate]] = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    departed: list[tuple[str, Row]] = field(default_factory=list)
    meter: Meter = lambda relation, transactions: nullcontext()
    outbox: Outbox = field(default_factory=Outbox)
    saved_windows: Changelog = field(init=False)
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.saved_windows = Changelog(self.counters)
        self.answers = Answers(self.outbox, self.counters)

    @property
    def tables(self) -> dict[str, Table]:
        return {name: schema.table for name, schema in self.schemas.items()}

    def arranged(self, table: str) -> Iterator[Arrangement]:
        return (each for (name, _), each in self.arrangements.items() if name == table)

    def arrangement(self, template: Template) -> Arrangement:
        return self.arrangements[template.table, template.keys]

    def active_of(self, window: Window) -> ActiveTemplate:
        return self.active[window.group.template]

    def over(self, name: str) -> list[ActiveTemplate]:
        """The active templates over a table or relation."""
        return [active for active in self.active.values() if active.template.table == name]

    def relations_over(self, table: str) -> set[str]:
        """Found by the templates: a cell may know a relation of which it holds no rows."""
        relations = (active.template for active in self.active.values() if active.template.relation is not None)
        return {template.table for template in relations if table in template.tables}

    def owns(self, template: Template) -> bool:
        """A template without keys lives in one partition; one with keys spreads over all."""
        q, count = self.partition
        return bool(template.keys) or home_of(template, count) == q

    def belongs(self, template: Template, instance: Instance) -> bool:
        q, count = self.partition
        return partition_of(template, instance, count) == q

    def mine(self, arrangement: Arrangement, rows: pa.RecordBatch, hash: Uint64s) -> Bools | None:
        """Which rows belong here: none with a NULL key, none of another partition; of a table that is held by key, none
        whose key is not held. None for all."""
        q, count = self.partition
        keyed = arrangement.keyed(rows)
        held = self.by_key.get((arrangement.table.name, arrangement.keys))
        if held is not None:
            return np.array([each in held for each in arrangement.encode(rows) or ()], np.bool_)
        if count == 1 or not arrangement.keys:
            return keyed
        salt = np.uint64(partition_salt(arrangement.table.name, arrangement.keys))
        here: Bools = (arrangement.folded(rows, hash) + salt) % np.uint64(count) == q
        return here if keyed is None else here & keyed

    @property
    def whole(self) -> bool:
        """Whether every query is here: then tables are held whole, and relations read them in their stores."""
        return self.partition[1] == 1

    def is_by_key(self, template: Template) -> bool:
        """Whether only the rows of some keys are held of its table."""
        return (template.table, key_columns(template)) in self.by_key

    def holds_all(self, template: Template) -> bool:
        """Whether the store of a template over these rows is to hold every row, and not only those of its keys."""
        if self.is_by_key(template):
            return False
        return self.partition[1] == 1 or not template.keys or template.relation is not None

    def new_multiset(self) -> Multiset:
        return Multiset(Tally(1, self.counters))
