"""Laws 1 to 5 end to end: two writer processes, 20 live queries, and the oracle's rows at every transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.emission import Diff, Emission, Result, State, Swap, apply
from tests.support import shop
from tests.support.fuzz import MULTIPLIER
from tests.support.oracle import Oracle, same_rows
from tests.support.processes import eventually, kill_worker, spawn_writer

TRANSACTIONS = 250 * MULTIPLIER
WRITERS = (1, 2)
RUNNERS = ["inline", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]


class Recorded:
    """The initial state of a live result and every emission after it."""

    def __init__(self, live: headwater.LiveResult) -> None:
        self.emissions: list[Emission] = []
        self.first = State(list(live.rows), list(live.hashes), live.columns, live.seq, live.gen, live.position)
        live.listen(lambda emission: self.emissions.append(emission) if emission is not None else None)


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("cells", ["1x1", "2x1"])
@pytest.mark.parametrize("queries", [shop.QUERIES, shop.RELATIONAL], ids=["one-table", "relational"])
def test_every_transaction_of_two_writers_gives_the_oracles_rows(
    queries: shop.Queries, runner: str, cells: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"
    shop.create(path)
    with headwater.connect(f"sqlite:///{path}", runner=runner, cells=cells, data_dir=tmp_path / "data") as db:
        marker = Recorded(db.query("SELECT id FROM journal", live=True))
        lives = [db.query(sql, *params, live=True) for sql, params in queries]
        assert {live.strategy for live in lives} == {"incremental"}
        recorded = [Recorded(live) for live in lives]
        writers = [spawn_writer(path, number, TRANSACTIONS) for number in WRITERS]
        if runner == "spark" and cells == "2x1":
            lose_a_worker(db)
        for writer in writers:
            assert writer.wait(280) == 0
        end = db.position()
        assert all(live.wait(end, timeout=120) for live in lives)
        assert db.status()["failure"] is None
    shares = check(Oracle(path, queries), marker, recorded)
    assert sorted(shares)[-10] >= 0.5, f"too quiet to prove much: {shares}"


def lose_a_worker(db: headwater.Database) -> None:
    """One cell's Python worker goes while transactions come in; Spark gives the cell a new one."""
    eventually(lambda: db.status()["transactions"] > 20)
    victim = kill_worker(db, 1)
    eventually(lambda: db.status()["cells"][1]["pid"] != victim)


def check(oracle: Oracle, marker: Recorded, recorded: list[Recorded]) -> list[float]:
    """Compares at every transaction; returns the share of transactions that changed each query."""
    position_of = {row["id"]: e.position for e in marker.emissions for row in inserted(e)}
    assert len(set(position_of.values())) == len(position_of), "two transactions were merged"
    by_position = [at_most_one_each(one.emissions) for one in recorded]
    states = [one.first for one in recorded]
    before: list[Any] = []
    changed = [0] * len(recorded)
    count = 0
    for id, expected in oracle.states():
        for n, rows in enumerate(expected):
            emission = by_position[n].pop(position_of[id], None) if id else None
            if emission is not None:
                assert_follows(states[n], emission)
                states[n] = apply(states[n], emission)
                changed[n] += 1
                unchanged = same_rows(rows, before[n], oracle.ordered[n])
                assert not unchanged, f"nothing changed at {id}, query {n}: {emission}"
            assert same_rows(states[n].rows, rows, oracle.ordered[n]), f"transaction {id}, query {n}"
            assert len(set(states[n].hashes)) == len(states[n].hashes)
        before = expected
        count += 1
    assert count == 1 + TRANSACTIONS * len(WRITERS)
    assert not any(by_position), "emissions at positions where nothing was committed"
    return [share / (count - 1) for share in changed]


def inserted(emission: Emission) -> list[Any]:
    assert isinstance(emission, Diff)
    return [change.new for change in emission.changes if change.new is not None]


def at_most_one_each(emissions: list[Emission]) -> dict[int, Emission]:
    positions = [emission.position for emission in emissions]
    assert positions == sorted(set(positions)), "two emissions for one transaction, or out of order"
    return dict(zip(positions, emissions, strict=True))


def assert_follows(state: State, emission: Emission) -> None:
    assert isinstance(emission, Diff | Swap) and not isinstance(emission, Result)
    assert emission.prev == state.seq and emission.seq > state.seq
