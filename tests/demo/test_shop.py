"""The demo's shop and its traffic: made from a seed, busy at the rate it is told, never an orphan."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.demo import shop
from headwater.demo.examples import EXAMPLES, Example
from headwater.demo.shop_file import create_shop
from headwater.demo.traffic import RATE_MAX, Traffic
from headwater.demo.traffic_process import RateLimit
from headwater.model.errors import HeadwaterError

SMALL = shop.Size(customers=20, orders=60, orders_max=80)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return create_shop(tmp_path / "shop.db", size=SMALL)


def dump(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def until(condition: Callable[[], bool]) -> None:
    """Waits; the test's own time limit is the only bound."""
    while not condition():
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie has ended, though nobody has asked for its exit code yet."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_same_seed_gives_the_same_shop(tmp_path: Path, path: Path) -> None:
    assert dump(path) == dump(create_shop(tmp_path / "again.db", size=SMALL))
    assert dump(path) != dump(create_shop(tmp_path / "other.db", size=SMALL, seed=8))


def test_a_shop_that_is_there_is_kept(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM orders")
    before = dump(path)
    assert dump(create_shop(path)) == before


def test_the_shop_is_in_wal_mode_and_its_keys_are_valid(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (SMALL.orders,)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_every_example_has_rows_and_stays_alive(tmp_path: Path, example: Example) -> None:
    chance, now = random.Random(1), shop.EPOCH
    with contextlib.closing(sqlite3.connect(create_shop(tmp_path / "shop.db"), isolation_level=None)) as db:
        seen = [db.execute(example.sql).fetchall()]
        for _ in range(200):
            now += dt.timedelta(milliseconds=125)
            shop.trade(db, chance, now)
            seen.append(db.execute(example.sql).fetchall())
    assert all(seen)
    assert sum(before != after for before, after in itertools.pairwise(seen)) > 20


def test_thousands_of_transactions_leave_a_bounded_shop_with_valid_keys(path: Path) -> None:
    chance = random.Random(3)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = OFF")
        before = db.total_changes
        for number in range(3_000):
            shop.trade(db, chance, shop.EPOCH + dt.timedelta(seconds=number), SMALL)
            assert db.execute("SELECT count(*) FROM orders").fetchone()[0] <= SMALL.orders_max
        assert db.total_changes - before > 3_000
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert db.execute("SELECT count(*) FROM customers").fetchone() == (SMALL.customers,)


def test_a_pace_is_kept_and_a_pause_is_not_made_up_for() -> None:
    pace, now, made = RateLimit(100.0, 0.0), 0.0, 0
    while now < 2.0:
        if pace.wait_s(now) == 0.0:
            pace.take(now)
            made += 1
        now += 0.001
    assert abs(made - 200) <= 1
    now += 60.0
    burst = 0
    while pace.wait_s(now) == 0.0:
        pace.take(now)
        burst += 1
    assert burst <= 11


def test_the_rate_takes_effect_at_once(path: Path) -> None:
    with Traffic(path, rate=0) as traffic:
        assert traffic.transactions() == 0
        traffic.rate = RATE_MAX * 10
        assert traffic.rate == RATE_MAX
        until(lambda: traffic.transactions() >= 100)
        traffic.rate = 0
        made = traffic.transactions()
        before = dump(path)
        assert [traffic.transactions() for _ in range(50)] == [made] * 50
        assert dump(path) == before
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_traffic_ends_when_closed_and_says_so_when_asked(path: Path) -> None:
    traffic = Traffic(path)
    traffic.transactions()
    os.kill(traffic.pid, 9)
    with pytest.raises(HeadwaterError, match="has ended"):
        until(lambda: traffic.transactions() < 0)
    traffic.close()
    assert not is_alive(traffic.pid)


def test_traffic_dies_with_its_parent(path: Path) -> None:
    starts = (
        "import sys; from headwater.demo.traffic import Traffic; traffic = Traffic(sys.argv[1]); "
        "traffic.transactions(); print(traffic.pid, flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", starts, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None and parent.stdin is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    until(lambda: not is_alive(pid))
