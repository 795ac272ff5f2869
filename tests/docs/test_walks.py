"""The walks of docs/life-of-a-query.md, traced: the files they name are on the way, and no folder is entered twice."""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

import headwater
from tests.docs.pages import ROOT, page
from tests.support.databases import place
from tests.support.neighbours import raw
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

SOURCE = str(ROOT / "src/headwater") + "/"
FILES_MAX = {"A new subscription": 34, "An UPDATE to a browser cell": 44, "A PostgreSQL commit": 24}


def named(walk: str) -> list[str]:
    """The files of ours that a walk names, in its order, each once."""
    return list(dict.fromkeys(re.findall(r"`((?:\w+/)+\w+\.(?:py|js))`", page("life-of-a-query.md").section(walk))))


@pytest.mark.parametrize("walk", FILES_MAX)
def test_a_walk_is_short_and_enters_each_folder_once(walk: str) -> None:
    files = named(walk)
    assert 10 < len(files) <= FILES_MAX[walk]
    folders = [folder for folder, _ in groupby(file.rpartition("/")[0] for file in files)]
    assert sorted(folders) == sorted(set(folders)), "a folder is entered twice"


class Tracer:
    """Which files of ours run, on any thread that was started since."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.on = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.entered.add(frame.f_code.co_filename.removeprefix(SOURCE))

    def during(self, walk: Callable[[], object]) -> set[str]:
        self.entered, self.on = set(), True
        try:
            walk()
        finally:
            self.on = False
        return self.entered


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    found, before = Tracer(), sys.getprofile()
    threading.setprofile(found)
    sys.setprofile(found)
    yield found
    sys.setprofile(before)
    threading.setprofile(None)


def missed(walk: str, entered: set[str]) -> list[str]:
    """Named, and not on the way. What runs in a browser leaves no trace here."""
    return [file for file in named(walk) if file.endswith(".py") and file not in entered]


@contextmanager
def shop(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, total REAL, status TEXT)")
        db.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        db.executemany("INSERT INTO customers VALUES (?, 'c', ?)", [(n, ("Porto", "Faro")[n % 2]) for n in range(10)])
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, 'new')", [(n, n % 10, 20.0 * n) for n in range(100)])
        yield db


@pytest.mark.slow
def test_the_walks_on_sqlite_go_through_the_files_they_name(tmp_path: Path, tracer: Tracer) -> None:
    [sql] = [block.code for block in page("life-of-a-query.md").blocks if block.code.startswith("SELECT")]
    [update] = [block.code for block in page("life-of-a-query.md").blocks if block.code.startswith("BEGIN")]
    with shop(tmp_path / "shop.db") as db:
        url = f"sqlite:///{tmp_path / 'shop.db'}"
        with place("ws", tmp_path / "data", url=url) as here, raw(here) as browser:

            def subscribe() -> None:
                browser.say({"type": "subscribe", "id": "q", "sql": sql})
                browser.hear("ready")
                browser.say({"type": "subscribe", "id": "one", "sql": "SELECT id FROM orders WHERE status = 'paid'"})
                browser.hear("ready")

            def commit() -> None:
                db.executescript(update.replace("250", "25000").replace("id = 7", "id = 10"))
                browser.hear("diff")
                browser.hear("diff")

            assert missed("A new subscription", tracer.during(subscribe)) == []
            assert missed("An UPDATE to a browser cell", tracer.during(commit)) == []


@pytest.mark.slow
def test_the_walk_on_postgresql_goes_through_the_files_it_names(
    tmp_path: Path, servers: Servers, tracer: Tracer
) -> None:
    server = servers[VERSIONS[-1]]
    with server.database() as name, psycopg.connect(server.url(name), autocommit=True) as there:
        there.execute("CREATE TABLE orders (id int PRIMARY KEY, customer_id int, total float8)")
        there.execute("INSERT INTO orders SELECT n, n % 10, n FROM generate_series(1, 100) n")
        with headwater.connect(server.url(name), runner="inline", data_dir=tmp_path / "data") as db:
            live = db.query("SELECT id, total FROM orders WHERE customer_id = 3", live=True)

            def commit() -> None:
                there.execute("UPDATE orders SET total = 250 WHERE id = 13")
                eventually(lambda: {"id": 13, "total": 250.0} in live.rows)

            assert missed("A PostgreSQL commit", tracer.during(commit)) == []
