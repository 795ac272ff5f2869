"""Law 7 on a bad disk: a bit of any file we write flips, or the file is cut, emptied or lost, while nobody looks.

After a restart every live query has the database's rows. Never a wrong row, never a traceback."""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.errors import HeadwaterError, Poisoned
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.cell.expulsion import count
from headwater.pipeline.data_dir.layout import Layout
from tests.support.byhand import Works
from tests.support.fuzz import MULTIPLIER as FUZZ
from tests.support.postgres import VERSIONS, Servers

LIMITS = replace(
    DEFAULT, segment_bytes_max=16 << 10, build_bytes_min=48 << 10, run_rows_min=64, manifest_interval_ms=1 << 30
)
_TIMEOUT_S = 120.0


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is saved or cleared away by the clock: a copy of the directory is that of one moment."""
    monkeypatch.setattr("headwater.pipeline.retention._EVERY_S", 3600.0)


# Every kind of file that a data directory may hold. A new one belongs here, with what protects it.
KINDS = {
    "lock": r"lock|(log|cells/\d+/diffs)/lock",  # its content is only told
    "format": "format",
    "catalog": "catalog",
    "generation": r"(log|cells/\d+/diffs)/generation",
    "head": r"log/head",
    "segment": r"log/\d{20}\.segment",
    "hydration": r"hydration/[0-9a-f]{16}\.arrow",
    "built": r"hydration/built-[0-9a-f]{16}/(order|built|[0-9a-f]{32}\.arrow)",
    "manifest": r"cells/\d+/manifest-\d+",
    "run": r"cells/\d+/state/[0-9a-f]{32}\.arrow",
    "diffs": r"cells/\d+/diffs/(head|\d{20}\.segment)",
    "diffs set aside": r"cells/\d+/diffs-damaged/.*",  # nobody reads them
    "poison": r"cells/\d+/poison",
    "shelf": "postgres/manifest",
    "shelf run": r"postgres/\d{8}\.arrow",
}
_SELDOM = {"diffs set aside"}


def kind_of(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    found = [kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)]
    assert len(found) == 1, f"expected a kind of file that is told in KINDS, found {name}: what protects it?"
    return found[0]


def by_kind(root: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        found.setdefault(kind_of(path, root), []).append(path)
    return found


# — damage


def flip(path: Path, chance: random.Random) -> str:
    whole = bytearray(path.read_bytes())
    if not whole:
        return lose(path, chance)
    at, bit = chance.randrange(len(whole)), chance.randrange(8)
    whole[at] ^= 1 << bit
    path.write_bytes(whole)
    return f"bit {bit} of byte {at} of {len(whole)} flipped"


def flip_several(path: Path, chance: random.Random) -> str:
    return ", ".join(flip(path, chance) for _ in range(5) if path.exists())


def cut(path: Path, chance: random.Random) -> str:
    length = chance.randrange(max(1, path.stat().st_size))
    os.truncate(path, length)
    return f"cut to {length} bytes"


def empty(path: Path, chance: random.Random) -> str:
    os.truncate(path, 0)
    return "emptied"


def lose(path: Path, chance: random.Random) -> str:
    path.unlink()
    return "lost"


HOWS: Sequence[Callable[[Path, random.Random], str]] = (flip, flip, flip_several, cut, empty, lose)


# — by hand: every file, with clients that resume


QUERIES = {
    "incremental, one table": "SELECT id, total, status FROM orders WHERE customer = 3",
    "incremental, ordered": "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 5",
    "incremental, group": "SELECT status, count(*) AS n, sum(customer) AS s FROM orders GROUP BY status",
    "incremental, join": "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.total > 80",
    "incremental, exists": (
        "SELECT c.id FROM customers c WHERE NOT EXISTS "
        "(SELECT 1 FROM orders o WHERE o.customer = c.id AND o.total > 95)"
    ),
    "incremental, top": "SELECT o.id, o.total FROM (SELECT * FROM orders ORDER BY total DESC, id LIMIT 7) o",
    "selective": "SELECT id, {slow} AS told FROM orders WHERE customer < 9",
    "requery": "SELECT id, row_number() OVER (ORDER BY total, id) AS place FROM orders WHERE customer < 5",
}


def statements(turn: int) -> list[str]:
    n = turn * 7
    return [
        f"UPDATE orders SET total = {n % 101}, status = '{'abcd'[n % 4]}' WHERE id % 17 = {n % 17}",
        f"DELETE FROM orders WHERE id % 29 = {n % 29}",
        f"INSERT INTO orders (customer, total, status) VALUES ({n % 12}, {n % 97}, 'a'), ({(n + 5) % 12}, 99, 'd')",
        f"UPDATE customers SET name = 'n{n}' WHERE id = {n % 12}",
    ]


SCHEMA = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE orders (id {serial}, customer INTEGER, total INTEGER, status TEXT)",
    "CREATE TABLE events (id INTEGER PRIMARY KEY, note TEXT)",
)
FILL = (
    *(f"INSERT INTO customers VALUES ({n}, 'n{n}')" for n in range(12)),
    *(
        f"INSERT INTO orders (customer, total, status) VALUES ({n % 12}, {n * 37 % 101}, '{'abcd'[n % 4]}')"
        for n in range(300)
    ),
    *(f"INSERT INTO events VALUES ({n}, '{'x' * 100}')" for n in range(600)),
)
SQLITE = {"serial": "INTEGER PRIMARY KEY", "slow": "json_quote(status)"}
POSTGRES = {"serial": "SERIAL PRIMARY KEY", "slow": "quote_ident(status)"}
BY_HAND = replace(LIMITS, build_bytes_min=1 << 30, segment_bytes_max=2 << 10)
KEYED = (
    "SELECT id, total, status FROM orders WHERE customer = 3",
    "SELECT id, total FROM orders WHERE customer = 5 ORDER BY total DESC LIMIT 3",
    "SELECT id, status FROM orders WHERE id = 34",
    "SELECT name FROM customers WHERE id = 4",
)
_NOT_BY_HAND = {"built", "poison", "shelf", "shelf run"}


@pytest.mark.slow
def test_clients_resume_whichever_file_was_damaged(tmp_path: Path) -> None:
    """By hand, so often: the whole directory as a power cut leaves it, one file of it damaged."""
    assert _damaged_by_hand(tmp_path, BY_HAND, tuple(QUERIES.values())) >= KINDS.keys() - _SELDOM - _NOT_BY_HAND


@pytest.mark.slow
def test_clients_of_tables_held_by_key_resume_whichever_file_was_damaged(tmp_path: Path) -> None:
    seen = _damaged_by_hand(tmp_path, replace(BY_HAND, partial_rows_min=0), KEYED)
    assert seen >= KINDS.keys() - _SELDOM - _NOT_BY_HAND - {"hydration"}


def _damaged_by_hand(tmp_path: Path, limits: Limits, queries: Sequence[str]) -> set[str]:
    """The kinds of files that were damaged."""
    works = Works(tmp_path / "data", limits=limits)
    works.write(*(one.format(**SQLITE) for one in SCHEMA))
    works.write(*FILL[:200])
    for sql in queries:
        works.subscribe(sql.format(**SQLITE))
    chance, seen = random.Random(11), set[str]()
    for turn in range(24 * FUZZ):
        works.write(*statements(turn))
        works.run()
        if chance.random() < 0.6:
            works.cells[0].save()
            works.pipeline._retention.sweep()
        works.write(*statements(turn + 1))
        works.run()
        works.crash()
        told = damaged(tmp_path / "data", chance, seen)
        works.write(*statements(turn + 2))
        works.resume()
        works.run()
        try:
            works.check()
        except AssertionError as error:
            raise AssertionError(f"turn {turn}, {told}: {error}") from error
    works.close()
    return seen


def damaged(root: Path, chance: random.Random, seen: set[str]) -> str:
    """One file of a kind, those that were not damaged yet first; what was done to it."""
    found = by_kind(root)
    kind = chance.choice(sorted(found.keys() - seen - _SELDOM) or sorted(found))
    path, how = chance.choice(found[kind]), chance.choice(HOWS)
    seen.add(kind)
    return f"{path.relative_to(root)}: {how(path, chance)}"


# — whole servers, both databases


@dataclass
class World:
    """A database, and the data directory of the server that follows it. Its lives come one after another."""

    url: str
    words: dict[str, str]
    write: Callable[[Sequence[str]], None]
    data: Path
    turn: int = 0
    reported: list[str] = field(default_factory=list)

    def writes(self) -> None:
        self.turn += 1
        self.write(statements(self.turn))

    def live(self, kill: bool) -> None:
        """One life: what was written before arrives, and what is written now. A killed one leaves no manifest."""
        server = Server(self.url, runner="inline", data_dir=self.data, limits=LIMITS)
        with Database(lambda session: Embedded(server.start(), session)) as db:
            lives = [live for sql in self.queries if (live := self._asked(db, sql)) is not None]
            for _ in range(2):
                self.writes()
                for live in lives:
                    self._check(db, live)
            server.pipeline._retention.sweep()
            if kill:
                shutil.copytree(self.data, self.data.with_name("killed"))
        if kill:
            shutil.rmtree(self.data)
            self.data.with_name("killed").rename(self.data)

    @property
    def queries(self) -> list[str]:
        return [*(sql.format(**self.words) for sql in QUERIES.values()), "SELECT id FROM events WHERE id < 50"]

    def _asked(self, db: Database, sql: str) -> headwater.LiveResult | None:
        try:
            return db.query(sql, live=True, timeout=_TIMEOUT_S)
        except HeadwaterError as error:
            self._told(error.message)
            return None

    def _check(self, db: Database, live: headwater.LiveResult) -> None:
        try:
            db.verify(live, _TIMEOUT_S)
        except HeadwaterError as error:
            assert live.state == "closed", f"{live.sql} is {live.state}, {live.reason}: {error}"
            self._told(live.reason or "")

    def _told(self, reason: str) -> None:
        assert reason, "refused or closed with no reason"
        self.reported.append(reason)


def go_on(world: World, kinds: Set[str], chance: random.Random, caplog: pytest.LogCaptureFixture) -> None:
    """Life after life, a file damaged between them, until it was one of every kind. Some come and go by themselves."""
    seen = set[str]()
    world.write([one.format(**world.words) for one in SCHEMA])
    world.write(FILL)
    for kill in (False, False, True):
        world.live(kill)
    for turn in itertools.count():
        if turn >= len(kinds) * FUZZ and seen >= kinds:
            break
        assert turn < 10 * len(kinds) * FUZZ, f"never there to be damaged: {kinds - seen}"
        count(Layout(world.data), 0, Poisoned("orders", ValueError("once"), 7))
        told = damaged(world.data, chance, seen)
        caplog.clear()
        world.writes()
        try:
            world.live(kill=chance.random() < 0.5)
        except Exception as error:
            raise AssertionError(f"turn {turn}, {told}: {error}") from error
        tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
        assert not tracebacks, f"turn {turn}, {told}: {tracebacks}"
    assert not world.reported, "every single damage is healed: nobody need be told"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_sqlite_every_damage_is_healed_or_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def write(statements: Sequence[str]) -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=60)) as db, db:
            for statement in statements:
                db.execute(statement)

    caplog.set_level(logging.ERROR)
    world = World(f"sqlite:///{tmp_path / 'shop.db'}", SQLITE, write, tmp_path / "data")
    go_on(world, KINDS.keys() - _SELDOM - {"shelf", "shelf run"}, random.Random(5), caplog)


@pytest.fixture
def postgres(servers: Servers) -> Iterator[Any]:
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        yield server.url(database)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_postgresql_every_damage_is_healed_or_told(
    postgres: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def write(statements: Sequence[str]) -> None:
        with psycopg.connect(postgres) as db:
            for statement in statements:
                db.execute(statement.encode())

    caplog.set_level(logging.ERROR)
    world = World(postgres, POSTGRES, write, tmp_path / "data")
    go_on(world, KINDS.keys() - _SELDOM, random.Random(6), caplog)
