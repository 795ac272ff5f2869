"""Random statements of two programs on random schemas: the replica converges, transactions arrive whole and alone."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.model.change import Transaction
from headwater.sources.source import Item, Source
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.replica import Replica
from tests.support.fuzz import MULTIPLIER as FUZZ

WRITER = Path(__file__).with_name("writer.py")
CHECKPOINTER = """
import random, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0.05)
while True:
    try:
        mode = random.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
        db.execute("PRAGMA wal_checkpoint(" + mode + ")").fetchone()
    except sqlite3.OperationalError:
        pass
    time.sleep(random.random() / 100)
"""


def schema(dice: random.Random) -> list[str]:
    """Two tables with random keys, indexes and references."""
    statements = ["CREATE TABLE journal(id TEXT)", "CREATE TABLE tables(name TEXT)"]
    for name in ("t", "u"):
        key = dice.choice(["", "PRIMARY KEY (a)", "PRIMARY KEY (b, a)", "PRIMARY KEY (c)"])
        a, b = (
            dice.choice(["a INTEGER", "a INT", "a"]),
            dice.choice(["b TEXT", "b TEXT COLLATE NOCASE", "b NOT NULL DEFAULT 3"]),
        )
        alias = dice.random() < 0.4
        columns = ["a INTEGER PRIMARY KEY" if alias else a, b, dice.choice(["c", "c REAL", "c UNIQUE", "c NUMERIC"])]
        if dice.random() < 0.5:
            parent = dice.choice("tu")
            if parent == name and not alias:
                columns[0] += " NOT NULL"
            columns.append(f"d REFERENCES {parent}(a) ON DELETE {action(dice)} ON UPDATE {action(dice)}")
        if dice.random() < 0.3:
            columns.append(f"g AS (a || ifnull(b, '')) {dice.choice(['VIRTUAL', 'STORED'])}")
        keyed = key if not alias else ""
        without = " WITHOUT ROWID" if keyed and dice.random() < 0.5 else ""
        statements.append(f"CREATE TABLE {name}({', '.join([*columns, *filter(None, [keyed])])}){without}")
        if not alias:
            statements.append(f"CREATE UNIQUE INDEX {name}a ON {name}(a)")  # for references
        for number in range(dice.randint(0, 2)):
            index = dice.choice(
                ["(b)", "(c, a)", "(lower(b))", "(b COLLATE NOCASE)", "(c) WHERE a > 0", "(a, c) WHERE b IS NOT NULL"]
            )
            statements.append(f"CREATE UNIQUE INDEX {name}{number} ON {name}{index}")
        statements.append(f"INSERT INTO tables VALUES ('{name}')")
    return statements


def action(dice: random.Random) -> str:
    return dice.choice(["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION"])


def created(path: Path, dice: random.Random, page_bytes: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute(f"PRAGMA page_size = {page_bytes}")
    db.execute(f"PRAGMA encoding = '{dice.choice(['UTF-8', 'UTF-8', 'UTF-16le', 'UTF-16be'])}'")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    for statement in schema(dice):
        db.execute(statement)
    return db


def follow(source: Source, after: int, writers: list[subprocess.Popen[bytes]]) -> list[Item]:
    """All items until the writers are done."""
    items: list[Item] = []
    while True:
        done = all(writer.poll() is not None for writer in writers)
        found = source.changes(after, 0 if done else 0.05)
        items += found
        after = max((item.position for item in found), default=after)
        if done and not found:
            assert all(writer.returncode == 0 for writer in writers)
            return items


def journalled(items: list[Item]) -> list[str]:
    """The ids of the transactions. Every captured one has exactly one."""
    ids: list[str] = []
    for item in items:
        if isinstance(item, Transaction):
            found = [str(change.new[0]) for change in item.changes if change.table == "journal" and change.new]
            assert len(found) == 1, f"{len(found)} transactions in one: {found}"
            ids += found
    return ids


def spawn(path: Path, seed: int, count: int, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WRITER), str(path), str(seed), str(count), name])


def check(path: Path, seed: int, page_bytes: int, count: int, checkpointing: bool) -> None:
    dice = random.Random(seed)
    db = created(path, dice, page_bytes)
    source = SqliteSource(path)
    replicas = []
    for table in ("journal", "t", "u"):
        source.capture(table)
        replicas.append(Replica(source, table))
    writers = [spawn(path, seed * 2 + number, count, f"w{number}") for number in range(2)]
    checkpointer = [subprocess.Popen([sys.executable, "-c", CHECKPOINTER, str(path)])] if checkpointing else []
    try:
        items = follow(source, replicas[0].position, writers)
    finally:
        for process in writers + checkpointer:
            process.kill()
            process.wait()
    for replica in replicas:
        replica.apply(items)
        replica.equals(db)
    assert journalled(items) == [id for (id,) in db.execute("SELECT id FROM journal ORDER BY rowid")]
    source.close()
    db.close()


@settings(
    max_examples=6 * FUZZ,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # a seed does not shrink
)
@pytest.mark.slow
@given(seed=st.integers(0, 10**6), page_bytes=st.sampled_from([512, 1024, 4096, 65536]), checkpointing=st.booleans())
def test_random_writers(tmp_path_factory: object, seed: int, page_bytes: int, checkpointing: bool) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "source.db"  # type: ignore[attr-defined]
    check(path, seed, page_bytes, 60, checkpointing)
