"""A command loads what it needs and no more: what is NOT imported is asserted, since how long it takes depends on the
machine. Each in a process of its own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases import Place, place

HEAVY = ("pyarrow", "numpy", "pandas", "pyspark", "sqlglot", "psycopg")
SERVING = ("starlette", "uvicorn", "uvloop")
CLIENT = ("websockets", "msgspec", "rich", "asyncio")
OURS = tuple(f"headwater.{name}" for name in ("engine", "sql", "pipeline", "sources", "log", "gateway"))
LOADED = "import sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place("ws", tmp_path_factory.mktemp("data")) as opened:
        opened.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        opened.write("INSERT INTO t VALUES (7)")
        yield opened


def loaded(code: str, *words: str) -> set[str]:
    """The modules that are there once the code has run, by their whole and their first names."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}", *words], capture_output=True, text=True, check=True
    )
    modules = json.loads(done.stderr.splitlines()[-1])
    return {*modules, *(name.partition(".")[0] for name in modules)}


def ran(*words: str) -> set[str]:
    return loaded(f"from headwater.cli import main\ntry: main({list(words)!r})\nexcept SystemExit: pass")


@pytest.mark.parametrize("words", [["--help"], ["watch", "--help"], ["--version"], ["nonsense"], ["explain"]])
def test_what_a_command_line_needs_to_be_read(words: list[str]) -> None:
    found = ran(*words)
    assert found & {*HEAVY, *SERVING, *CLIENT, *OURS} == set()


def test_what_the_package_needs_to_be_imported() -> None:
    assert loaded("import headwater") & {*HEAVY, *SERVING, *CLIENT, *OURS} == set()
    assert loaded("import headwater; headwater.SqlError, headwater.apply, headwater.Result") & {*HEAVY, *OURS} == set()


def test_what_a_client_of_a_gateway_needs(here: Place) -> None:
    asked = f"import headwater\nwith headwater.connect({here.url!r}) as db:\n"
    asked += "  assert db.query('SELECT id FROM t', live=True).rows == [{'id': 7}]\n"
    assert loaded(asked) & {*HEAVY, *SERVING, "rich", *OURS} == set()


@pytest.mark.parametrize(
    "words", [["watch", "SELECT id FROM t", "--json", "--count", "1"], ["explain", "SELECT id FROM t"]]
)
def test_what_a_command_at_a_gateway_needs(here: Place, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stop = "import headwater.client.live as live\nlive.LiveResult.events = lambda self, timeout=None: iter([None])\n"
    code = f"{stop}from headwater.cli import main\nassert main({[*words, '--source', here.url]!r}) == 0"
    assert loaded(code) & {*HEAVY, *SERVING, *OURS} == set()


@pytest.mark.parametrize("command", ["explain", "watch"])
def test_a_command_without_spark_needs_no_pandas(command: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    db.close()
    words = ["SELECT id FROM t", "--source", f"sqlite:///{tmp_path}/t.db", "--data-dir", str(tmp_path / "data")]
    words = [command, *words, *(["--runner", "inline", "--json", "--count", "1"] if command == "watch" else [])]
    stop = "import headwater.client.live as live\nlive.LiveResult.events = lambda self, timeout=None: iter([None])\n"
    code = "from headwater.cli import main\nassert main() == 0"
    assert loaded(f"{stop}{code}", *words) & {"pandas", "pyspark", "psycopg", *SERVING} == set()


def test_a_file_without_spark_needs_no_spark(tmp_path: Path) -> None:
    asked = (
        f"import headwater\nwith headwater.connect('memory://', runner='inline', data_dir={str(tmp_path)!r}) as db:\n"
    )
    asked += "  db.execute('CREATE TABLE t (id INTEGER PRIMARY KEY)')\n  db.query('SELECT id FROM t', live=True)\n"
    assert loaded(asked) & {"pyspark", "psycopg", *SERVING, "rich", "websockets"} == set()
