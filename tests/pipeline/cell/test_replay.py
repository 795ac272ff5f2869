"""Law 13 for a whole cell: its log, run again in any cut and through any accident, gives the same edits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.pipeline.retention import Retention
from tests.support import shop
from tests.support.databases import place
from tests.support.processes import spawn_writer
from tests.support.replay import Tape, cell_config, edits, run_to_the_end, run_with_accidents

TRANSACTIONS = 80
CUTS = (7, 40, 512)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """Two writers, all queries of the shop, half of them subscribed to while the writers write."""
    directory = tmp_path_factory.mktemp("taped")
    path = directory / "shop.db"
    shop.create(path)
    queries = [*shop.QUERIES, *shop.RELATIONAL]
    with pytest.MonkeyPatch.context() as patch, place("embedded", directory / "data", url=f"sqlite:///{path}") as here:
        patch.setattr(Retention, "sweep", lambda self: None)
        lives = [here.db.query(sql, *params, live=True) for sql, params in queries[::2]]
        writers = [spawn_writer(path, number, TRANSACTIONS) for number in (1, 2)]
        lives += [here.db.query(sql, *params, live=True) for sql, params in queries[1::2]]
        assert [writer.wait(120) for writer in writers] == [0, 0]
        assert all(live.wait(here.db.position()) for live in lives)
        return Tape.taken(here.server.pipeline.layout, directory)


@pytest.mark.slow
def test_a_cell_replayed_from_its_log_gives_the_same_edits(tape: Tape, tmp_path: Path) -> None:
    one_by_one = tape.wound(tmp_path / "1")
    run_to_the_end(cell_config(one_by_one, 1))
    wanted = edits(one_by_one)
    assert len(wanted) > 1000
    for cut in CUTS:
        layout = tape.wound(tmp_path / str(cut))
        run_to_the_end(cell_config(layout, cut))
        assert edits(layout) == wanted, f"{cut} records a step"
    restarts = 0
    for seed in range(2):
        rng, layout = random.Random(seed), tape.wound(tmp_path / f"seed-{seed}")
        restarts += run_with_accidents(cell_config(layout, rng.choice((3, 7, 20))), rng)
        assert edits(layout) == wanted, f"seed {seed}"
    assert restarts > 3
