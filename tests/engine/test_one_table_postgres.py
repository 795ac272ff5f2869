"""Rows of one PostgreSQL table, followed without operators and through a relation: the same rows, emissions and errors.

The relation is how earlier versions followed them. What they logged or saved goes on so.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.rows.delta import Delta
from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.emission import State, apply
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from headwater.model.verbatim import Verbatim
from headwater.plan.planner import earlier_templates, plan
from headwater.plan.template import Instance, Template
from tests.engine.world import FUZZ, batch_of, delta_of

COLUMNS = (
    Column("id", Type.INTEGER, "bigint", nullable=False),
    Column("a", Type.INTEGER, "integer"),
    Column("t", Type.TEXT, "text", "en_US.utf8"),
    Column("n", Type.NUMERIC, "numeric"),
    Column("f", Type.REAL, "double precision"),
    Column("j", Type.JSON, "jsonb"),
)
LATER = Column("k", Type.JSON, "jsonb")  # which has no order that we know
VALUES: dict[str, tuple[Value, ...]] = {
    "a": (0, 1, 2, 3),
    "t": ("x", "X", "y", "é", ""),
    "n": (Decimal("1.0"), Decimal("1.00"), Decimal("NaN"), Decimal(0), Decimal("-2.5")),
    "f": (0.0, -0.0, float("nan"), 1.5, float("-inf")),
    "j": (Verbatim("jsonb", "1"), Verbatim("jsonb", '{"a": 1}')),
}
VALUES["k"] = VALUES["j"]
QUERIES = (
    "SELECT id, n, f FROM p WHERE a = 1",
    "SELECT id, t FROM p WHERE a = 2 AND t = 'x'",
    "SELECT a, t FROM p WHERE a BETWEEN 1 AND 2",
    "SELECT t, j FROM p WHERE t IN ('x', 'y', 'é')",
    "SELECT id, 10 / a AS q FROM p WHERE f >= 0",
    "SELECT t FROM p WHERE n <> 0 AND 10 / a > 3",
    "SELECT id FROM p WHERE 10 / a > 3 AND n <> 0 AND t = 'X'",
    "SELECT n FROM p ORDER BY n, f DESC LIMIT 3",
    "SELECT id, f FROM p WHERE a = 1 ORDER BY f NULLS FIRST",
    "SELECT t FROM p ORDER BY a DESC LIMIT 2 OFFSET 1",
    'SELECT a, t FROM p ORDER BY t COLLATE "C", 10 / a LIMIT 4',
    "SELECT length(t) AS l, n + 1 AS m FROM p WHERE n > 0",
)


@dataclass(slots=True)
class Follower:
    """What a subscriber knows who only applies what is emitted; `told` is when it was told what."""

    template: Template
    instance: Instance
    state: State = field(default_factory=State)
    told: list[tuple[int, str]] = field(default_factory=list)

    def receive(self, flow: Dataflow) -> None:
        emitted = flow.take()
        mine = [entry for entry in emitted.index if entry.instance == self.instance.id]
        names = [output.name for output in self.template.outputs]
        shown = [entry for entry in mine if entry.kind in ("result", "diff")]
        for emission in read_emissions(shown, emitted.edits.get(self.template.id), names, lambda tx: tx):
            self.state = apply(self.state, replace(emission, gen=self.state.gen))
        self.told += [(entry.tx, entry.kind) for entry in mine]

    def rows(self, keyed: bool) -> list[str]:
        pairs = zip(self.state.rows, self.state.hashes, strict=True)
        shown = [repr((row, hash if keyed else None)) for row, hash in pairs]
        return shown if self.template.ordered else sorted(shown)


@dataclass(slots=True)
class Source:
    """Rows and how they change; a row without a key has its values alone."""

    table: Table
    rng: random.Random
    rows: list[Row] = field(default_factory=list)

    def transaction(self) -> Transaction:
        changes = [each for _ in range(self.rng.randint(1, 4)) for each in self._change()]
        return coalesce(Transaction(0, tuple(changes)), {self.table.name: self.table})

    def _change(self) -> list[Change]:
        kind = self.rng.random()
        if not self.rows or kind < 0.4:
            return self._replaced(None, self._row())
        old = self.rng.choice(self.rows)
        if kind < 0.55:
            return self._replaced(old, None)
        return self._replaced(old, tuple(self._value(n) if self.rng.random() < 0.4 else v for n, v in enumerate(old)))

    def _replaced(self, old: Row | None, new: Row | None) -> list[Change]:
        taken = {row[0] for row in self.rows if row is not old}
        if new is not None and self.table.key and new[0] in taken:
            return []
        if old is not None:
            self.rows.remove(next(row for row in self.rows if row is old))
        self.rows += [] if new is None else [new]
        return [Change(self.table.name, old, new)]

    def _row(self) -> Row:
        return tuple(self._value(place) for place in range(len(self.table.columns)))

    def _value(self, place: int) -> Value:
        name = self.table.columns[place].name
        if name == "id":
            return self.rng.randrange(12)
        return None if self.rng.random() < 0.1 else self.rng.choice(VALUES[name])

    def widen(self) -> None:
        self.table = replace(self.table, columns=(*self.table.columns, LATER), schema_id=1)
        self.rows = [(*row, None) for row in self.rows]


@dataclass(slots=True)
class Flow:
    """A dataflow that holds one query; its state lies in `directory` when it is restarted."""

    follower: Follower
    directory: Path
    flow: Dataflow = field(default_factory=Dataflow)

    def begin(self, source: Source) -> None:
        self.flow.define(source.table)
        self.flow.activate(self.follower.template, {source.table.name: [batch_of(source.table, source.rows)]})
        self.flow.subscribe(self.follower.instance, 1)

    def restart(self) -> None:
        self.directory.mkdir(exist_ok=True)
        self.flow = Dataflow.load(self.directory, self.flow.save(self.directory).document)

    def step(self, table: str, delta: Delta) -> None:
        self.flow.step({table: [delta]})
        self.follower.receive(self.flow)


def _flows(source: Source, sql: str, directory: Path) -> list[Flow]:
    """Without operators, and through a relation."""
    planned = plan(sql, [source.table])
    *_, earlier = earlier_templates(planned.template.sql, [source.table])
    assert planned.template.relation is None
    assert earlier.relation is not None
    each = [Follower(one, replace(planned.instance, template=one.id)) for one in (planned.template, earlier)]
    return [Flow(one, directory / one.template.id) for one in each]


def _step(source: Source, first: int, flows: Sequence[Flow]) -> int:
    after = first + source.rng.randint(1, 4)
    delta = delta_of(source.table, [(tx, source.transaction()) for tx in range(first, after)])
    for flow in flows:
        flow.step(source.table.name, delta)
    return after


@pytest.mark.parametrize("key", [("id",), ()])
@pytest.mark.parametrize("sql", QUERIES)
def test_one_table_is_followed_as_its_relation_is(sql: str, key: tuple[str, ...], tmp_path: Path) -> None:
    """Over restarts, and a column that is added meanwhile. Where there is a key, rows have the same names too."""
    columns = COLUMNS if key or "ORDER" not in sql else COLUMNS[:-1]
    for seed in range(4 * FUZZ):
        source = Source(Table("p", columns, key, dialect="postgres"), random.Random(f"{sql} {key} {seed}"))
        for _ in range(4):
            source.transaction()
        (tmp_path / str(seed)).mkdir()
        flows, tx = _flows(source, sql, tmp_path / str(seed)), 2
        for flow in flows:
            flow.begin(source)
        for number in range(8):
            if number == 5:
                source.widen()
            for flow in flows:
                if number in (3, 6):
                    flow.restart()
                flow.flow.define(source.table)
            tx = _step(source, tx, flows)
            one, other = (flow.follower for flow in flows)
            assert one.told == other.told, (seed, number)
            assert one.rows(bool(key)) == other.rows(bool(key)), (seed, number)
