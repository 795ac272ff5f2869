"""A server simulated from a seed: writes, subscriptions, steps of every part, crashes of cells and of all of it, in any
order, and while questions to the database are under way. At the end, and wherever it stands still, every live query
equals the effective query.

A failing seed is replayed with `HEADWATER_SEED=<seed> pytest tests/pipeline/test_simulation.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.model.limits import DEFAULT
from headwater.sources.cancellation import Cancelled
from headwater.sources.source import Answer, Moment
from tests.support.byhand import Works, stop_the_clock
from tests.support.fuzz import MULTIPLIER

pytestmark = pytest.mark.slow

SEEDS = (
    [int(os.environ["HEADWATER_SEED"])]
    if "HEADWATER_SEED" in os.environ
    else [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 40 * MULTIPLIER))]
)
MOVES = 150
LANES = 3  # questions that are under way at once
SCHEMA = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)",
    "CREATE TABLE b (k TEXT, v REAL)",
    "CREATE TABLE c (x TEXT NOT NULL, y INTEGER NOT NULL, z BLOB, PRIMARY KEY (x, y)) WITHOUT ROWID",
)
QUERIES = (
    "SELECT * FROM a",
    "SELECT id, s FROM a WHERE n = ?",
    "SELECT id, n FROM a WHERE n = ? ORDER BY id DESC LIMIT 3",
    "SELECT id, n, s FROM a ORDER BY n, s LIMIT 4 OFFSET 1",
    "SELECT upper(s) AS s, n + 1 AS m FROM a WHERE n > 1 OR s IS NULL",
    "SELECT k, v FROM b",
    "SELECT v FROM b WHERE k = ? ORDER BY v",
    "SELECT x, y, z FROM c",
    "SELECT y, z FROM c WHERE x = ? ORDER BY y DESC LIMIT 2",
    "SELECT a.id, b.v FROM a JOIN b ON b.k = a.s",
    "SELECT a.id, c.y, c.z FROM a LEFT JOIN c ON c.y = a.id WHERE a.n = ? ORDER BY a.id, c.x",
    "SELECT m.id, o.id AS other FROM a AS m JOIN a AS o ON o.n = m.n AND o.id > m.id LIMIT 3",
    "SELECT n, count(*) AS many, max(id) AS newest FROM a GROUP BY n ORDER BY many DESC LIMIT 2",
    "SELECT count(*) AS many, sum(y) AS total FROM c",
    "SELECT id, s FROM a WHERE n = ? OR EXISTS (SELECT 1 FROM c WHERE c.y = a.id)",
    "SELECT id FROM a WHERE s NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT k FROM b UNION SELECT s FROM a ORDER BY 1",
    "SELECT s FROM a EXCEPT SELECT k FROM b",
    "SELECT k, v FROM b UNION ALL SELECT x, y + 0.5 FROM c LIMIT 4",
    "SELECT id, rank() OVER (ORDER BY n, id) AS place FROM a ORDER BY place",
    "SELECT a.id, sum(c.y) OVER (ORDER BY a.id, c.x) AS running FROM a JOIN c ON c.y = a.id WHERE a.n = ?",
    "SELECT id, json_array(n, s) AS j FROM a WHERE n = ?",
    "SELECT a.id, c.z, date('2020-01-0' || a.n) AS day FROM a LEFT JOIN c ON c.y = a.id",
    "SELECT id, json_quote(s) AS q FROM a WHERE n IN (SELECT y FROM c)",
    "SELECT id, json_quote(n) AS q FROM a WHERE n = ? OR s NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT a.id, c.x, json_quote(a.s) AS q FROM a FULL JOIN c ON c.y = a.n WHERE a.s IS NULL OR c.x > '1'",
)
ASKED = tuple(sql for sql in QUERIES if "OVER" in sql or "json" in sql or "date" in sql)
RELATED = tuple(sql for sql in QUERIES if sql not in ASKED and ("JOIN" in sql or "count" in sql))
BY_KEY = {"partial_rows_min": 0, "key_idle_ms": 0}  # tables of any size are held by key, and idle keys go at once
KEYED = (
    "SELECT id, s FROM a WHERE n = ?",
    "SELECT n, s FROM a WHERE id = ?",
    "SELECT id, n FROM a WHERE n = ? ORDER BY id DESC LIMIT 3",
    "SELECT y, z FROM c WHERE x = ? ORDER BY y DESC LIMIT 2",
)
KEYED_TIMES = 30  # as likely as the others together and more: one query that needs all rows ends it for its table


class Simulation:
    """Of half of the lives tables are held by key."""

    def __init__(self, seed: int, data_dir: Path, queries: Sequence[str] = QUERIES) -> None:
        self.chance = random.Random(seed)
        pick = self.chance
        limits = replace(
            DEFAULT,
            step_records_max=pick.choice([1, 2, 5, 512]),
            segment_bytes_max=pick.choice([600, 4_000, 1 << 20]),
            frame_bytes_max=pick.choice([300, 1 << 20]),
            history_emissions_max=pick.choice([2, 1000]),
            run_rows_min=pick.choice([2, 1024]),
        )
        cells = pick.choice([1, 2, 3])
        if pick.random() < 0.5:
            limits, cells, queries = replace(limits, **BY_KEY), 1, (*queries, *KEYED * KEYED_TIMES)
        self.works = Works(data_dir, cells=cells, limits=limits)
        self.works.write(*SCHEMA)
        self.queries = queries
        self.done: list[str] = []

    @property
    def moves(self) -> list[Callable[[], None]]:
        return [
            *[self.write] * 6,
            *[self.works.capture] * 4,
            *[self.step] * 6,
            *[self.works.look] * 4,
            *[self.works.ask] * 2,
            self.begin_again,
            *[self.subscribe] * 3,
            self.unsubscribe,
            self.evict,
            self.crash_cell,
            self.save,
            self.sweep,
            self.restart,
            self.pass_time,
            self.expire,
            self.settle,
            self.alter,
            self.drop,
            *[self.move] * 3,
        ]

    def run(self, only: Sequence[int] = ()) -> None:
        """All moves, or only some of them: what a failure needs is found by leaving out."""
        seed, moves = self.chance.random(), self.moves
        for number in only or range(MOVES):
            self.chance = random.Random(f"{seed} {number}")  # a move does the same whatever was done before it
            move = self.chance.choice(moves)
            self.done.append(f"{number} {move.__name__}")
            move()
        self.settle()

    def settle(self) -> None:
        self.works.run()
        self.works.check()

    def write(self) -> None:
        self.works.write(*(self._statement() for _ in range(self.chance.choice([1, 1, 2, 5, 12]))))

    def _statement(self) -> str:
        pick = self.chance
        id, n, s = pick.randrange(8), pick.randrange(4), pick.choice(["'x'", "'y'", "NULL", "'Ä'"])
        return pick.choice(
            [
                f"INSERT OR REPLACE INTO a (id, n, s) VALUES ({id}, {n}, {s})",
                f"UPDATE OR REPLACE a SET id = {id} WHERE id = {pick.randrange(8)}",
                f"UPDATE a SET n = {n}, s = {s} WHERE n = {pick.randrange(4)}",
                f"DELETE FROM a WHERE id = {id}",
                f"INSERT INTO b (k, v) VALUES ({s}, {n}.5)",
                f"DELETE FROM b WHERE v = {n}.5",
                f"UPDATE b SET v = v + 1 WHERE k = {s}",
                f"INSERT OR REPLACE INTO c (x, y, z) VALUES ('{n}', {id}, x'0{n}')",
                f"DELETE FROM c WHERE y = {id}",
                f"UPDATE OR REPLACE c SET x = '{n}' WHERE y = {id}",
            ]
        )

    def alter(self) -> None:
        table = self.chance.choice("abc")
        columns = [name for one in self.works.source.tables() if one.name == table for name in one.names]
        if len(columns) < 6:
            self.works.write(f"ALTER TABLE {table} ADD COLUMN more{len(columns)} INTEGER DEFAULT 7")

    def drop(self) -> None:
        """The table goes and comes again; its queries end, unless nobody noticed in time."""
        table = self.chance.choice("abc")
        self.works.run()
        self.works.write(f"DROP TABLE {table}")
        self.works.run()
        for id, one in list(self.works.watched.items()):
            if table in self.works.reads(one.planned):
                assert one.live.state == "closed", f"{id} is {one.live.state}"
                self.works.watched.pop(id)
        self.works.write(next(sql for sql in SCHEMA if f"TABLE {table} " in sql))

    def step(self) -> None:
        self.chance.choice(self.works.cells).turn(0)

    def subscribe(self) -> None:
        if len(self.works.watched) < 15:
            sql = self.chance.choice(self.queries)
            value = (
                self.chance.choice(["x", "y", "1", "2"])
                if " k = " in sql or " x = " in sql
                else self.chance.randrange(4)
            )
            self.works.subscribe(sql, *([value] if "?" in sql else []))

    def unsubscribe(self) -> None:
        if self.works.watched:
            self.works.unsubscribe(self.chance.choice(list(self.works.watched)), forget=self.chance.random() < 0.5)

    def crash_cell(self) -> None:
        self.works.crash_cell(self.chance.randrange(len(self.works.cells)))

    def save(self) -> None:
        self.chance.choice(self.works.cells).save()

    def sweep(self) -> None:
        self.works.pipeline._retention.sweep()

    def begin_again(self) -> None:
        self.works.begin_again()

    def evict(self) -> None:
        """As the pipeline does: not before the windows of earlier lives have ended."""
        self.expire()
        self.works.pipeline.evict()

    def restart(self) -> None:
        self.works.crash()
        self.works.resume()

    def pass_time(self) -> None:
        self.works.now += self.chance.choice([1.0, 10.0, 100.0])

    def expire(self) -> None:
        self.works.pipeline._templates.expire()

    def move(self) -> None:
        """The windows of some template to another strategy, or back."""
        pipeline = self.works.pipeline
        if self.works.watched:
            template = self.chance.choice(list(self.works.watched.values())).planned.template.id
            if not pipeline.moves.ask(template, "by chance"):
                pipeline.moves.follow(template, "by chance")
        pipeline.mover.look()


class Questions(Simulation):
    """Of queries that the database answers: while questions are under way, others ask and write, and some fail."""

    def __init__(self, seed: int, data_dir: Path) -> None:
        super().__init__(seed, data_dir, (*ASKED, *RELATED))
        self._lanes = 0
        self._query, self._moment = self.works.source.query, self.works.source.moment
        self.works.source.query = self._asked  # type: ignore[method-assign]
        self.works.source.moment = self._held  # type: ignore[method-assign]

    @property
    def moves(self) -> list[Callable[[], None]]:
        often = (self.write, self.works.capture, self.ask, self.works.look)
        return [*often * 4, *[self.subscribe, self.settle] * 2, self.step, self.unsubscribe, self.move]

    def ask(self) -> None:
        """In one more lane; others go on while its questions are under way."""
        if self._lanes < LANES:
            self._lanes += 1
            try:
                self.works.ask()
            finally:
                self._lanes -= 1

    def _asked(self, *given: Any) -> Answer:
        self._meanwhile()
        answer = self._query(*given)
        self._meanwhile()
        return answer

    @contextmanager
    def _held(self) -> Iterator[Moment]:
        with self._moment() as moment:
            self._meanwhile()
            yield moment

    def _meanwhile(self) -> None:
        moves = [self.write, self.works.capture, self.step, self.works.look, self.ask, self.unsubscribe, self.fail]
        while self._lanes and self.chance.random() < 0.4:
            self.chance.choice(moves)()

    def fail(self) -> None:
        raise Cancelled("the question failed")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_told_by_a_seed_ends_well(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(seed, tmp_path)
    stop_the_clock(monkeypatch, lambda: simulation.works.now)
    try:
        simulation.run()
    except BaseException:
        print(f"replay with HEADWATER_SEED={seed}; it went: {', '.join(simulation.done)}")
        raise
    finally:
        simulation.works.close()


@pytest.mark.parametrize("seed", SEEDS[: 24 * MULTIPLIER])
def test_questions_under_way_together_end_well(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Questions(seed, tmp_path)
    stop_the_clock(monkeypatch, lambda: simulation.works.now)
    try:
        simulation.run()
    finally:
        simulation.works.close()


def test_a_seed_tells_the_same_life_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lives = []
    for n in range(2):
        simulation = Simulation(7, tmp_path / str(n))
        stop_the_clock(monkeypatch, lambda simulation=simulation: simulation.works.now)  # type: ignore[misc]
        simulation.run()
        lives.append(
            [(id, [e.seq for e in one.told], repr(one.live.rows)) for id, one in simulation.works.watched.items()]
        )
        simulation.works.close()
    assert lives[0] == lives[1] and lives[0]
