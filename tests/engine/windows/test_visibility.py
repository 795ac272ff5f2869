"""Keys that are not shown: what leaves a result as it looks is not told, and rows are known by the hashes they had."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import encode
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import plan
from tests.engine.world import FUZZ, Subscriber, batch_of, deliver, delta_of

T = Table(
    "t",
    (Column("id", Type.INTEGER, "INTEGER"), Column("a", Type.INTEGER, "INTEGER"), Column("b", Type.INTEGER, "INTEGER")),
    ("id",),
)
Pair = tuple[Row | None, Row | None]
ROWS: list[Row] = [(1, 5, 1), (2, 6, 2), (3, 5, 3), (4, 7, 4)]
RENAMED: list[Pair] = [((1, 5, 1), (9, 5, 1))]
REPLACED: list[Pair] = [((1, 5, 1), None), (None, (9, 5, 1))]
SWAPPED: list[Pair] = [((1, 5, 1), (1, 6, 1)), ((2, 6, 2), (2, 5, 2))]
MOVED: list[Pair] = [((1, 5, 1), (1, 5, 9))]
REGROUPED: list[Pair] = [((2, 6, 2), (2, 8, 2))]
UNSEEN = (
    ("SELECT a FROM t", RENAMED),
    ("SELECT a FROM t", REPLACED),
    ("SELECT a FROM t", SWAPPED),
    ("SELECT a FROM t WHERE a = 5", REPLACED),
    ("SELECT a FROM t WHERE a < 6", REPLACED),
    ("SELECT 12 AS n FROM t WHERE b IN (1, 2)", RENAMED),
    ("SELECT a FROM t ORDER BY a", RENAMED),
    ("SELECT a FROM t ORDER BY a", SWAPPED),
    ("SELECT a FROM t ORDER BY a, b LIMIT 2", [((1, 5, 1), (1, 5, 9))]),
    ("SELECT a FROM t WHERE a = 5 ORDER BY b LIMIT 1", [((1, 5, 1), None)]),
    ("SELECT a FROM t WHERE a = 5 ORDER BY b", MOVED),
    ("SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1", REPLACED),
    ("SELECT 12 AS n FROM t GROUP BY a", REGROUPED),
    ("SELECT 12 AS n FROM t GROUP BY a ORDER BY a DESC LIMIT 2", REGROUPED),
    ("SELECT count(*) AS n FROM t GROUP BY a", REGROUPED),
    ("SELECT x.a FROM t x JOIN t y ON y.a = x.a", RENAMED),
    ("SELECT x.a FROM t x LEFT JOIN t y ON y.a = x.a + 2", [((4, 7, 4), (9, 7, 4))]),
    ("SELECT 12 AS n FROM t x JOIN t y ON y.id = x.id ORDER BY x.a", REPLACED),
    ("SELECT n FROM (SELECT DISTINCT a, 12 AS n FROM t) ORDER BY a", REGROUPED),
    ("SELECT n FROM (SELECT a, 12 AS n FROM t UNION SELECT b, 12 FROM t WHERE b > 6)", REGROUPED),
)


class Life:
    """One query, followed by applying what is told; it raises where nothing that is shown changed."""

    def __init__(self, sql: str, rows: list[Row]) -> None:
        self.flow, self.planned, self.tx = Dataflow(), plan(sql, [T]), 1
        self.flow.define(T)
        self.flow.activate(self.planned.template, {"t": [batch_of(T, rows)]})
        self.subscriber = Subscriber(self.planned)
        self.flow.subscribe(self.planned.instance, 1)
        self.hear()

    def hear(self) -> list[tuple[int, str]]:
        emitted = self.flow.take()
        deliver(emitted, [self.subscriber])
        return [(entry.tx, entry.kind) for entry in emitted.index]

    def change(self, pairs: list[Pair]) -> list[tuple[int, str]]:
        self.tx += 1
        one = Transaction(0, tuple(Change("t", old, new) for old, new in pairs))
        self.flow.step({"t": [delta_of(T, [(self.tx, one)])]})
        return self.hear()

    def reload(self, directory: Path) -> None:
        self.flow = Dataflow.load(directory, self.flow.save(directory).document)

    def check(self) -> None:
        """What was applied is what a fresh result shows, hash by hash."""
        known = dict(zip(self.subscriber.state.hashes, map(repr, self.subscriber.state.rows), strict=True))
        self.flow.snapshot(self.planned.instance.id)
        self.hear()
        fresh = dict(zip(self.subscriber.state.hashes, map(repr, self.subscriber.state.rows), strict=True))
        assert fresh == known


@pytest.mark.parametrize(("sql", "pairs"), UNSEEN)
def test_what_leaves_a_result_as_it_looks_is_not_told(sql: str, pairs: list[Pair], tmp_path: Path) -> None:
    life = Life(sql, ROWS)
    before = set(life.subscriber.state.hashes)
    assert life.change(pairs) == []
    life.check()
    assert set(life.subscriber.state.hashes) == before
    life.reload(tmp_path)
    life.check()
    left = {*ROWS, *(new for _, new in pairs)} - {old for old, _ in pairs} - {None}
    assert life.change([(row, None) for row in sorted(left, key=repr)]) == [(3, "diff")]
    assert life.subscriber.rows == []


def test_a_new_key_is_told_with_the_next_change_of_the_row() -> None:
    life = Life("SELECT a FROM t WHERE b = 1", ROWS)
    [before] = life.subscriber.state.hashes
    assert life.change(RENAMED) == []
    assert life.change([((9, 5, 1), (9, 6, 1))]) == [(3, "diff")]
    [after] = life.subscriber.state.hashes
    assert after != before and after == Life("SELECT a FROM t", [(9, 6, 1)]).subscriber.state.hashes[0]
    assert life.change([((9, 6, 1), (9, 7, 1))]) == [(4, "diff")]
    assert life.subscriber.state.hashes == [after]


def test_a_key_that_is_used_again_is_another_row() -> None:
    life = Life("SELECT a FROM t", ROWS)
    assert life.change(RENAMED) == []
    assert life.change([(None, (1, 8, 8))]) == [(3, "diff")]
    assert life.change([((1, 8, 8), None)]) == [(4, "diff")]
    assert life.change([((9, 5, 1), None)]) == [(5, "diff")]
    life.check()


def test_where_something_is_seen_a_new_key_is_told() -> None:
    life = Life("SELECT a FROM t", ROWS)
    before = set(life.subscriber.state.hashes)
    assert life.change([*RENAMED, ((4, 7, 4), (4, 8, 4))]) == [(2, "diff")]
    assert len(before - set(life.subscriber.state.hashes)) == 1


def test_a_list_is_compared_until_it_differs() -> None:
    """A row that moves through a thousand others is told after a few of them were read."""
    rows: list[Row] = [(id, id, id) for id in range(2000)]
    life = Life("SELECT a FROM t ORDER BY b", rows)
    before = life.flow.counters.gathered
    assert life.change([((0, 0, 0), (0, 0, 1999))]) == [(2, "diff")]
    assert life.flow.counters.gathered - before < 100


QUERIES = (
    "SELECT a FROM t",
    "SELECT a FROM t WHERE b = 1",
    "SELECT a, b FROM t WHERE a < 2",
    "SELECT a FROM t ORDER BY b",
    "SELECT b FROM t ORDER BY a LIMIT 3",
    "SELECT a FROM t ORDER BY a LIMIT 4 OFFSET 2",
    "SELECT 12 AS n FROM t GROUP BY a",
    "SELECT count(*) AS n FROM t GROUP BY a ORDER BY min(b)",
    "SELECT x.a FROM t x LEFT JOIN t y ON y.b = x.id",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_however_it_is_cut_the_same_is_told(sql: str, tmp_path: Path) -> None:
    """Random rows that look alike, whose keys change; each emission shows something."""
    rng = random.Random(sql)
    rows = {id: (id, rng.randrange(3), rng.randrange(3)) for id in range(8)}
    first: list[Row] = list(rows.values())
    history = [(tx, Transaction(0, tuple(changes(rng, rows)))) for tx in range(2, 2 + 60 * FUZZ)]
    lives = [Life(sql, first) for _ in range(3)]
    told = []
    for life, cut in zip(lives, (1, 7, 50), strict=True):
        emitted = []
        for at in range(0, len(history), cut):
            life.flow.step({"t": [delta_of(T, history[at : at + cut])]})
            taken = life.flow.take()
            deliver(taken, [life.subscriber])
            emitted.append([(entry.tx, entry.prev, entry.kind) for entry in taken.index])
            if cut == 7:
                life.reload(tmp_path)
        life.check()
        told.append(([each for part in emitted for each in part], list(life.subscriber.state.hashes)))
    fresh = Life(sql, list(rows.values()))
    assert fresh.subscriber.shown() == lives[0].subscriber.shown()
    assert told[0][0] == told[1][0] == told[2][0]
    assert sorted(told[0][1]) == sorted(told[1][1]) == sorted(told[2][1])
    assert encode(lives[0].flow.take()) == encode(lives[2].flow.take())


def changes(rng: random.Random, rows: dict[int, tuple[int, int, int]]) -> list[Change]:
    out = []
    for id in rng.sample(range(12), rng.randrange(1, 4)):
        old = rows.pop(id, None)
        to = rng.choice([id, id, rng.randrange(12)])
        if to in rows or (old is None and rng.random() < 0.3):
            to = id
        new = (to, rng.randrange(3), rng.choice([old[2] if old else 0, rng.randrange(3)]))
        if old is not None and rng.random() < 0.4:
            new = (to, old[1], old[2])
        rows[to] = new
        if old != new:
            out.append(Change("t", old, new))
    return [one for one in out if one.old is not None or one.new is not None]
