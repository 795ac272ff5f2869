"""Templates built beside the cells: nobody waits for them, and nobody can tell that they were."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

import headwater
from headwater.log.record import Kind, Record
from headwater.model.emission import Diff
from headwater.model.limits import DEFAULT
from headwater.pipeline import retention
from headwater.pipeline.activation import offload
from headwater.pipeline.records.control import Activate, decode_control, encode_control
from headwater.pipeline.retention import Retention
from tests.support.databases import Place, place, rows, values
from tests.support.processes import eventually
from tests.support.replay import Tape, cell_config, reports, run_to_the_end

pytestmark = pytest.mark.slow

ALWAYS = replace(DEFAULT, build_bytes_min=1)
BUSY = "SELECT id, n FROM t"
QUERIES = (
    "SELECT u.v, count(*) AS n, sum(t.n) AS total, max(t.id) AS newest FROM t JOIN u ON u.v = t.n GROUP BY u.v",
    "SELECT t.id, u.w FROM t LEFT JOIN u ON u.v = t.n ORDER BY u.w DESC, t.id LIMIT 8",
    "SELECT v FROM u",
    "SELECT id FROM t WHERE n = 3",
    "SELECT DISTINCT w FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.n = u.v)",
    "SELECT w, avg(v) AS mean FROM u GROUP BY w",
)
HELD = """
import pathlib, sys, time
released, held, errand, directory = sys.argv[1:]
if errand == held:
    (pathlib.Path(directory) / "held").touch()
    while not pathlib.Path(released).exists():
        time.sleep(0.01)
from headwater.pipeline.activation.worker_process import main
main(errand, directory)
"""


@pytest.fixture(autouse=True)
def whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is counted: nothing of it goes."""
    monkeypatch.setattr(retention, "_SEGMENT_BYTES_MIN", sys.maxsize)


def fill(here: Place) -> None:
    here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    here.write("CREATE TABLE u (v INTEGER, w TEXT)")
    here.write_together(
        *(f"INSERT INTO t VALUES ({n}, {n % 7})" for n in range(40)),
        *(f"INSERT INTO u VALUES ({n % 9}, '{'abc'[n % 3]}')" for n in range(20)),
    )


def disturb(here: Place, rng: random.Random) -> int:
    return here.write_together(
        f"INSERT OR REPLACE INTO t VALUES ({rng.randrange(60)}, {rng.randrange(9)})",
        f"DELETE FROM t WHERE id = {rng.randrange(60)}",
        f"INSERT INTO u VALUES ({rng.randrange(9)}, '{rng.choice('abc')}')",
        f"DELETE FROM u WHERE v = {rng.randrange(9)} AND w = '{rng.choice('abc')}'",
    )


@dataclass(slots=True)
class Held:
    """A template that is asked for, and built in a directory; the outcome, once there is one."""

    directory: Path
    found: list[headwater.LiveResult | headwater.HeadwaterError]


@contextmanager
def held(here: Place, monkeypatch: pytest.MonkeyPatch, release: Path, errand: str = "build_worker") -> Iterator[Held]:
    """The errand begins, and waits until the file `release` is there."""
    monkeypatch.setattr(offload, "COMMAND", [sys.executable, "-c", HELD, str(release), errand])
    found: list[headwater.LiveResult | headwater.HeadwaterError] = []

    def ask() -> None:
        try:
            found.append(here.db.query(QUERIES[0], live=True))
        except headwater.HeadwaterError as error:
            found.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    hydration = here.server.pipeline.layout.hydration
    eventually(lambda: any(hydration.glob("*/held")))
    assert not found
    yield Held(next(hydration.glob("*/held")).parent, found)
    asking.join(120)
    assert found


def activations(log: Path) -> list[Activate]:
    found = [decode_control(record) for record in Tape(log.parent).records() if record.kind is Kind.ACTIVATE]
    return [one for one in found if isinstance(one, Activate)]


@pytest.mark.parametrize("errand", ["read_worker", "build_worker"])
def test_others_go_on_while_a_template_is_read_and_built(
    errand: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction is one emission of the busy query, at its own position, before the other is there; and so is
    another new template."""
    url = f"sqlite:///{tmp_path / 'origin.db'}"
    with place("embedded", tmp_path / "data", url=url, limits=ALWAYS) as here:
        fill(here)
        busy = here.db.query(BUSY, live=True)
        told: list[int] = []
        busy.listen(lambda emission: told.append(emission.position) if isinstance(emission, Diff) else None)
        with held(here, monkeypatch, tmp_path / "release", errand) as slow:
            wanted = [here.write("UPDATE t SET n = n + 1 WHERE id = ?", n) for n in range(20)]
            assert busy.wait(wanted[-1])
            assert told == wanted
            monkeypatch.undo()
            here.db.verify(here.db.query(QUERIES[3], live=True))
            assert not slow.found
            (tmp_path / "release").touch()
        [live] = slow.found
        assert isinstance(live, headwater.LiveResult)
        here.db.verify(live)
        disturb(here, random.Random(1))
        here.db.verify(live)
        [activate] = [one for one in activations(here.server.pipeline.layout.log) if len(one.tables) == 2]
        assert activate.built


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/origin.db"], ids=["built", "read and built"])
def test_a_template_built_while_others_write_is_right_at_every_transaction(url: str, tmp_path: Path) -> None:
    """Where a process of its own can open the source, the rows are read there too, at a position of their own."""
    rng = random.Random(7)
    with place("embedded", tmp_path / "data", url=url.format(tmp_path), limits=ALWAYS, cells="2x1") as here:
        fill(here)
        enough = threading.Event()

        def write() -> None:
            while not enough.wait(0.01):
                disturb(here, rng)

        writing = threading.Thread(target=write)
        writing.start()
        lives = [here.db.query(sql, live=True) for sql in QUERIES]
        enough.set()
        writing.join()
        for _ in range(15):
            position = disturb(here, rng)
            for live, sql in zip(lives, QUERIES, strict=True):
                assert live.wait(position)
                wanted = here.source_rows(sql)
                assert sorted(map(repr, wanted)) == sorted(repr(tuple(row.values())) for row in rows(live)), sql
        built = [one for one in activations(here.server.pipeline.layout.log) if one.built]
        assert len(built) == len(QUERIES) and any(len(one.built) > 1 for one in built)


def test_what_is_emitted_is_the_same_bytes_however_a_template_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    monkeypatch.setattr(Retention, "sweep", lambda self: None)
    with place("embedded", tmp_path / "data", limits=ALWAYS) as here:
        fill(here)
        with pytest.MonkeyPatch.context() as patch, held(here, patch, tmp_path / "release"):
            for _ in range(10):
                disturb(here, rng)
            (tmp_path / "release").touch()
        lives = [here.db.query(sql, live=True) for sql in QUERIES]
        assert all(one.built for one in activations(here.server.pipeline.layout.log))
        for _ in range(10):
            position = disturb(here, rng)
        assert all(live.wait(position) for live in lives)
        tape = Tape.taken(here.server.pipeline.layout, tmp_path)
    beside_, inside = tape.wound(tmp_path / "beside"), tape.wound(tmp_path / "inside", without_built)
    for layout in (beside_, inside):
        run_to_the_end(cell_config(layout, 7))
    emitted = [(one.start, one.to, one.positions, one.emitted) for one in reports(beside_)]
    assert any(payload for *_, payload in emitted)
    assert emitted == [(one.start, one.to, one.positions, one.emitted) for one in reports(inside)]


def without_built(record: Record) -> bytes:
    if record.kind is not Kind.ACTIVATE:
        return record.payload
    activate = decode_control(record)
    assert isinstance(activate, Activate)
    return encode_control(msgspec.structs.replace(activate, built=()))[1]


def test_few_rows_are_no_reason_to_start_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "COMMAND", ["no such program"])
    with place("embedded", tmp_path) as here:
        fill(here)
        here.db.verify(here.db.query(QUERIES[0], live=True))
        assert not any(one.built for one in activations(here.server.pipeline.layout.log))


@pytest.mark.parametrize("command", [["no such program"], [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]])
def test_what_cannot_be_built_beside_the_cells_build(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "COMMAND", command)
    url = f"sqlite:///{tmp_path / 'origin.db'}"
    with place("embedded", tmp_path / "data", url=url, limits=ALWAYS) as here:
        fill(here)
        here.db.verify(here.db.query(QUERIES[0], live=True))
        assert not [path for path in here.server.pipeline.layout.hydration.iterdir() if path.is_dir()]


def test_what_takes_too_long_to_build_the_cells_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    with place("embedded", tmp_path, limits=replace(ALWAYS, build_ms_max=50)) as here:
        fill(here)
        here.db.verify(here.db.query(QUERIES[0], live=True))


@pytest.mark.parametrize("errand", ["read_worker", "build_worker"])
def test_a_server_that_ends_while_a_template_is_built_leaves_nothing_behind(errand: str, tmp_path: Path) -> None:
    url, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    with place("embedded", data, url=url, limits=ALWAYS) as here:
        fill(here)
        busy = here.db.query(BUSY, live=True)
        with pytest.MonkeyPatch.context() as patch, held(here, patch, tmp_path / "never", errand) as slow:
            here.server.close()
        assert isinstance(slow.found[0], headwater.HeadwaterError) and busy.state == "ready"
    with place("embedded", data, url=url, limits=ALWAYS) as here:
        live = here.db.query(QUERIES[0], live=True)
        here.db.verify(live)
        eventually(lambda: not slow.directory.exists())
        here.db.verify(live)


def test_a_cell_that_starts_anew_after_the_activation_has_what_was_built(tmp_path: Path) -> None:
    url, data = f"sqlite:///{tmp_path / 'origin.db'}", tmp_path / "data"
    for _ in range(2):
        with place("embedded", data, url=url, limits=ALWAYS) as here:
            if not here.server.pipeline.templates:
                fill(here)
            live = here.db.query(QUERIES[0], live=True)
            disturb(here, random.Random(3))
            here.db.verify(live)
            here.server.pipeline._retention.sweep()


def test_what_was_built_and_is_damaged_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "sweep", lambda self: None)
    with place("embedded", tmp_path / "data", limits=ALWAYS) as here:
        fill(here)
        live = here.db.query(QUERIES[0], live=True)
        assert live.wait(here.db.position())
        tape = Tape.taken(here.server.pipeline.layout, tmp_path)
    whole, damaged = tape.wound(tmp_path / "whole"), tape.wound(tmp_path / "damaged")
    for file in damaged.hydration.glob("built-*/*.arrow"):
        file.write_bytes(b"not what it was")
    for layout in (whole, damaged):
        run_to_the_end(cell_config(layout, 7))
    assert [one.emitted for one in reports(damaged)] == [one.emitted for one in reports(whole)]


def test_a_table_that_changes_while_a_template_is_built_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further column leaves the query as it is: it is built from the rows, in the cell."""
    with place("embedded", tmp_path / "data", url=f"sqlite:///{tmp_path / 'origin.db'}", limits=ALWAYS) as here:
        fill(here)
        busy = here.db.query(BUSY, live=True)
        with held(here, monkeypatch, tmp_path / "release"):
            here.write("ALTER TABLE t ADD COLUMN further TEXT")
            assert busy.wait(here.write("INSERT INTO t VALUES (100, 3, 'x')"))
            (tmp_path / "release").touch()
        monkeypatch.undo()
        live = here.db.query(QUERIES[0], live=True)
        here.db.verify(live)
        assert 100 in values(busy)


def test_the_process_ends_with_its_parent() -> None:
    main = "from headwater.pipeline.activation import worker_process; worker_process._end_with_parent()"
    code = f"import time; {main}; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(120) == 1
