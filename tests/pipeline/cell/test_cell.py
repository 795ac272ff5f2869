"""A cell is a function of the log: whatever the steps, crashes and attempts, its emissions are the same, each once."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headwater.log.segment import SegmentReader
from headwater.model.emission import Result
from headwater.model.errors import Fenced
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.cell import Cell
from headwater.pipeline.cell.config import CellConfig
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import EndEpoch, Tick, encode_control
from headwater.pipeline.records.diff_record import Event, decode_report, events_of
from tests.support.byhand import Works

QUERIES = (
    "SELECT id, n FROM t",
    "SELECT id FROM t WHERE n = 2",
    "SELECT id, s FROM t ORDER BY s, id LIMIT 3",
    "SELECT n, s FROM t WHERE n = 1 ORDER BY s DESC LIMIT 2 OFFSET 1",
    "SELECT k, count(*) AS c FROM u GROUP BY k",
    "SELECT t.id, u.k FROM t JOIN u ON u.k = t.n",
)
SMALL = replace(DEFAULT, frame_bytes_max=500)


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path / "data", limits=SMALL)
    made.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)", "CREATE TABLE u (k INTEGER)")
    yield made
    made.close()


def live(works: Works, seed: int = 1, moves: int = 60) -> None:
    """A life with transactions of all sizes, and subscriptions that come and go."""
    pick = random.Random(seed)
    for sql in pick.sample(QUERIES, 4):
        works.subscribe(sql)
    for _ in range(moves):
        match pick.randrange(9):
            case 0 if len(works.watched) < 10:
                works.subscribe(pick.choice(QUERIES))
            case 1 if works.watched:
                works.unsubscribe(pick.choice(list(works.watched)), forget=True)
                works.look()
            case _:
                works.write(*(statement(pick) for _ in range(pick.choice([1, 2, 30]))))
                works.capture()
    works.run()


def statement(pick: random.Random) -> str:
    return pick.choice(
        [
            f"INSERT OR REPLACE INTO t VALUES ({pick.randrange(9)}, {pick.randrange(4)}, '{pick.choice('xyz')}')",
            f"UPDATE OR REPLACE t SET id = {pick.randrange(9)} WHERE id = {pick.randrange(9)}",
            f"DELETE FROM t WHERE id = {pick.randrange(9)}",
            f"INSERT INTO u VALUES ({pick.randrange(4)})",
            f"DELETE FROM u WHERE k = {pick.randrange(4)}",
        ]
    )


def events(works: Works, diffs: Path) -> list[Event]:
    with SegmentReader(diffs) as reader:
        found: list[Event] = []
        while records := reader.poll():
            for record in records:
                found += events_of(decode_report(record.payload), works.pipeline.gen, works.pipeline.names)
    return found


def again(works: Works, root: Path, **limits: int) -> list[Event]:
    """The same log, read by a cell that was never there before."""
    layout = Layout(root)
    for part in ("log", "hydration"):
        shutil.copytree(works.data_dir / part, root / part)
    layout.make(1)
    cell = Cell(CellConfig(layout, Grid(), 0, works.pipeline.boot, limits=replace(SMALL, **limits)))
    while cell.turn(0):
        pass
    cell.close()
    return events(works, layout.diffs(0))


def told(found: list[Event]) -> list[str]:
    """All but repeated snapshots of one state, of which a longer step gives one."""
    return list(dict.fromkeys(repr(event) for event in found))


@pytest.mark.slow
def test_the_same_log_cut_into_any_steps_gives_the_same_emissions(works: Works, tmp_path: Path) -> None:
    live(works, moves=120)
    works.check()
    first = told(events(works, works.pipeline.layout.diffs(0)))
    assert len(first) > 60, "too quiet to prove much"
    for step in (1, 2, 7, 512):
        assert told(again(works, tmp_path / str(step), step_records_max=step)) == first
    assert told(again(works, tmp_path / "bytes", step_bytes_max=600)) == first


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_cell_that_crashes_again_and_again_emits_everything_once(works: Works, tmp_path: Path, seed: int) -> None:
    """Law 7: between a diff and its manifest, between two steps, with and without anything new."""
    live(works, seed, 25)
    whole = told(again(works, tmp_path / "whole", step_records_max=1))
    layout, pick = Layout(tmp_path / "again"), random.Random(seed)
    for part in ("log", "hydration"):
        shutil.copytree(works.data_dir / part, layout.root / part)
    layout.make(1)
    config = CellConfig(layout, Grid(), 0, works.pipeline.boot, limits=replace(SMALL, step_records_max=3))
    cell, more = Cell(config), True
    while more:
        more = cell.turn(0)
        if pick.random() < 0.2:
            cell.save()
        if pick.random() < 0.3:
            cell.close()
            cell = Cell(replace(config, limits=replace(SMALL, step_records_max=pick.choice([1, 3, 10]))))
    cell.close()
    found = events(works, layout.diffs(0))
    assert told(found) == whole
    once = Counter((one.instance, one.tx, one.kind) for one in found if not isinstance(one.emission, Result))
    assert max(once.values()) == 1


def test_a_report_says_from_where_to_where(works: Works) -> None:
    live(works)
    with SegmentReader(works.pipeline.layout.diffs(0)) as reader:
        spans = [(report.start, report.to) for record in reader.poll() for report in [decode_report(record.payload)]]
    steps = [span for span in spans if span[0] <= span[1]]
    assert all(after[0] == before[1] + 1 for before, after in pairwise(steps))
    assert steps[-1][1] == works.pipeline.log_offset - 1


def test_an_older_attempt_is_stopped(works: Works) -> None:
    works.subscribe(QUERIES[0])
    works.run()
    old, new = works.cells[0], works.cell(0)
    works.cells[0] = new
    assert not old.current and new.current
    works.write("INSERT INTO t VALUES (1, 1, 'x')")
    works.capture()
    with pytest.raises(Fenced):
        old.turn(0)
    with pytest.raises(Fenced):
        old.save()
    old.close()
    works.run()
    new.save()
    works.check()


def test_an_older_attempt_writes_no_manifest(works: Works) -> None:
    works.subscribe(QUERIES[0])
    works.run()
    old = works.cells[0]
    works.cells[0] = works.cell(0)
    with pytest.raises(Fenced):
        old.save()
    assert not list(works.pipeline.layout.cell(0).glob("manifest-*"))
    old.close()


def test_an_end_record_ends_the_cells_of_its_boot_and_of_older_ones(works: Works) -> None:
    log, boot = works.pipeline._log, works.pipeline.boot
    log.append(*encode_control(EndEpoch(boot - 1)))
    works.run()
    assert not works.cells[0].ended
    log.append(*encode_control(EndEpoch(boot)))
    works.run()
    assert works.cells[0].ended
    works.cells[0].save()
    works.crash_cell(0)
    assert works.cells[0].ended, "the manifest tells"
    works.crash()
    works.resume()
    works.run()
    assert not works.cells[0].ended, "this is another boot"


def test_a_lease_that_was_not_renewed_runs_out_at_the_tick(works: Works) -> None:
    kept, lost = (works.subscribe(sql) for sql in QUERIES[:2])
    works.run()
    gone = works.watched.pop(lost).planned.instance.id
    works.crash()
    works.resume()
    works.run()
    windows = works.cells[0]._dataflow._state.windows
    assert set(windows) == {works.watched[kept].planned.instance.id, gone}
    works.pipeline._log.append(*encode_control(Tick(works.pipeline.boot)))
    works.run()
    assert set(windows) == {works.watched[kept].planned.instance.id}
    works.write("INSERT INTO t VALUES (1, 2, 'x')")
    works.run()
    works.check()


def test_a_cell_reads_its_partition_and_no_other(tmp_path: Path) -> None:
    works = Works(tmp_path, cells=3)
    works.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    for n in range(12):
        works.subscribe("SELECT id FROM t WHERE n = ?", n)
    works.write(*(f"INSERT INTO t VALUES ({id}, {id % 12})" for id in range(60)))
    works.run()
    works.check()
    shares = [len(cell._dataflow._state.windows) for cell in works.cells]
    assert sum(shares) == 12 and all(shares)
    works.close()


def test_large_transactions_come_in_parts_and_are_one_emission(works: Works) -> None:
    id = works.subscribe(QUERIES[0])
    works.run()
    before: Any = works.pipeline.log_offset
    works.write(*(f"INSERT INTO t VALUES ({n}, {n}, 'x')" for n in range(200)))
    works.capture()
    assert works.pipeline.log_offset - before > 5, "it came in parts"
    for _ in range(3):
        works.cells[0].turn(0)
        works.look()
    works.run()
    works.check()
    assert len(works.watched[id].told) == 2 and len(works.watched[id].live.rows) == 200
