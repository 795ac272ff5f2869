"""The rows that live queries showed, by the position they showed them for, and the oracle's beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater
from headwater.model.emission import Emission, State
from headwater.plan.requery_whole import has_order
from tests.support import shop
from tests.support.oracle import applied, replayed, same_rows
from tests.support.processes import spawn_writer


@dataclass(frozen=True, slots=True)
class Query:
    """`ties` are the keys of its rows: behind the order, where it has one, they say how ties fall."""

    sql: str
    params: tuple[Any, ...] = ()
    ties: str = ""

    @property
    def effective(self) -> str:
        return f"{self.sql}, {self.ties}" if self.ties else self.sql


class Answers:
    """Of one live query."""

    def __init__(self, live: headwater.LiveResult) -> None:
        self.live = live
        self._state = State(list(live.rows), list(live.hashes), live.columns, live.seq, live.gen, live.position)
        self.rows = {live.position: self._state.rows}
        live.listen(self._take)

    def _take(self, emission: Emission | None) -> None:
        if emission is not None:
            self._state = applied(self._state, emission, has_order(self.live.sql))
            self.rows[emission.position] = self._state.rows


def check_answers(
    here: Path,
    strategy: str,
    queries: Sequence[Query],
    cells: str = "1x1",
    meanwhile: Callable[[headwater.Database], AbstractContextManager[object]] = nullcontext,
    enough: Callable[[], bool] = lambda: True,
) -> int:
    """While two writers write, wherever a query was answered its rows are the oracle's. How often that was. They go on
    until what happens meanwhile was `enough`."""
    path = here / "shop.db"
    shop.create(path)
    with headwater.connect(f"sqlite:///{path}", runner="inline", cells=cells, data_dir=here / "data") as db:
        marker = db.query("SELECT id FROM journal", live=True)
        positions: dict[int, int] = {}
        marker.listen(lambda emission: positions.update(_inserted(emission)))
        answers = [Answers(db.query(one.sql, *one.params, live=True)) for one in queries]
        assert {one.live.strategy for one in answers} == {strategy}
        with meanwhile(db):
            _until_answered(path, db, answers, enough)
    return sum(_checked(path, query, one, positions) for query, one in zip(queries, answers, strict=True))


def _until_answered(path: Path, db: headwater.Database, answers: Sequence[Answers], enough: Callable[[], bool]) -> None:
    """Two writers write, and again while answers are few: on a busy machine one covers many transactions."""
    for round in itertools.count():
        pair = [spawn_writer(path, 2 * round + number, 10 if round else 60, pause_s=0.03) for number in (1, 2)]
        assert [writer.wait(240) for writer in pair] == [0, 0]
        if settled(db.position(), answers) > 50 and enough():
            return


def settled(position: int, answers: Sequence[Answers]) -> int:
    """All of them answered up to a position; how many answers there are."""
    for one in answers:
        assert one.live.wait(position)
        one.rows[position] = list(one.live.rows)
    return sum(len(one.rows) for one in answers)


def _inserted(emission: Emission | None) -> dict[int, int]:
    changes = getattr(emission, "changes", ())
    return {change.new["id"]: emission.position for change in changes if change.new}  # type: ignore[union-attr]


def _checked(path: Path, query: Query, answers: Answers, positions: Mapping[int, int]) -> int:
    """Replays the journal and compares wherever the query was answered."""
    at = {position: id for id, position in positions.items()} | {0: 0}
    checked = 0
    for id, scratch in replayed(path):
        shown = [rows for position, rows in answers.rows.items() if at.get(position) == id]
        for rows in shown:
            cursor = scratch.execute(query.effective, query.params)
            names = [column[0] for column in cursor.description]
            expected = [dict(zip(names, row, strict=True)) for row in cursor]
            assert same_rows(rows, expected, has_order(query.sql)), f"{query.sql} at transaction {id}"
            checked += 1
    return checked
