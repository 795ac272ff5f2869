"""Whole relations: random trees over random tables, against SQLite at every transaction; cut differently; restored."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headwater.engine.operators.derived import Derived
from headwater.engine.rows.work import Work
from headwater.model.change import Transaction
from headwater.model.value import Row
from headwater.sql.ir.relation import Relation
from tests.engine.operators.oracle import Oracle
from tests.engine.operators.world import Folded, Relations, World, deltas_of, nodes, random_world, rows_of, shown
from tests.engine.world import FUZZ, batch_of

_KINDS = {
    *("Scan", "Values", "Filter", "Project", "Join", "Exists", "Mark", "Group", "Distinct", "SetOperation", "Top"),
}

_TRIES = 4

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Story:
    """A relation and what happens to its base tables; the answer after each transaction."""

    world: World
    relation: Relation
    first: dict[str, list[Row]]
    answers: dict[int, list[str]]
    steps: list[tuple[int, dict[str, Transaction]]] = field(default_factory=list)

    @property
    def changed(self) -> int:
        return sum(self.answers[tx] != self.answers[tx - 1] for tx, _ in self.steps)

    def opened(self) -> Folded:
        derived = Derived("d", self.relation, self.world.tables, Work())
        tables = self.world.tables
        loaded = derived.load({name: [batch_of(tables[name], rows)] for name, rows in self.first.items()})
        folded = Folded(derived)
        rows = [row for batch in loaded for row in rows_of(derived.table, batch)]
        assert shown(rows) == self.answers[0]
        folded.load(rows)
        return folded

    def run(self, folded: Folded, start: int, end: int, cut: int) -> None:
        for at in range(start, end, cut):
            part = self.steps[at : min(at + cut, end)]
            self._check(folded, part)

    def _check(self, folded: Folded, part: list[tuple[int, dict[str, Transaction]]]) -> None:
        now = self.answers[part[0][0] - 1]
        after = folded.fold(folded.derived.step(deltas_of(self.world.tables, part)))
        for tx, _ in part:
            now = after.get(tx, now)
            assert now == self.answers[tx], (tx, self.relation)


def story(seed: int, transactions: int = 12) -> Story:
    """One in which something happens: of a few, the first whose answer changes now and then."""
    stories = (_story(random.Random(f"{seed}/{n}"), transactions) for n in range(_TRIES))
    return next(
        (told for told in stories if 3 * told.changed > transactions), _story(random.Random(seed), transactions)
    )


def _story(rng: random.Random, transactions: int) -> Story:
    world = random_world(rng)
    for base in world.bases.values():
        for _ in range(rng.randint(0, 10)):
            base.transaction()
    relation = Relations(world, rng).relation(rng.randint(1, 4))
    oracle = Oracle()
    told = Story(world, relation, world.rows, {0: shown(oracle.rows(relation, world.rows))})
    for tx in range(1, transactions + 1):
        told.steps.append((tx, world.transaction(rng)))
        told.answers[tx] = shown(oracle.rows(relation, world.rows))
    oracle.close()
    return told


def test_random_trees_equal_sqlite_at_every_transaction() -> None:
    kinds: Counter[str] = Counter()
    checks = changed = 0
    for seed in range(90 * FUZZ):
        told = story(seed)
        folded = told.opened()
        told.run(folded, 0, len(told.steps), 1)
        kinds.update(type(node).__name__ for node in nodes(told.relation))
        checks += len(told.steps)
        changed += told.changed
    print(f"{checks} checks, {changed / checks:.0%} with a diff, nodes: {dict(kinds)}")
    assert set(kinds) == _KINDS
    assert changed / checks > 0.5


def test_steps_cut_differently_give_the_same_deltas() -> None:
    for seed in range(1000, 1000 + 36 * FUZZ):
        told = story(seed)
        logs = []
        for cut in (1, 7, 50):
            folded = told.opened()
            told.run(folded, 0, len(told.steps), cut)
            logs.append((folded.log, folded.renames))
        assert logs[0] == logs[1] == logs[2], seed


def test_a_restored_relation_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    for seed in range(2000, 2000 + 30 * FUZZ):
        told = story(seed)
        folded = told.opened()
        half = len(told.steps) // 2
        told.run(folded, 0, half, 3)
        saved = folded.derived.save(tmp_path)
        assert all((tmp_path / name).exists() for name in saved.files)
        again = Derived("d", told.relation, told.world.tables, Work())
        again.restore(tmp_path, saved.document)
        folded.derived = again
        told.run(folded, half, len(told.steps), 3)
