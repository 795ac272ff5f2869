"""What can be profiled, by name: a step of the engine, or the whole way of a commit from SQLite to the client."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.engine import GROUP, JOIN, TEMPLATE, TOP
from bench.flowing import opened
from bench.traffic import Traffic
from headwater.sources.sqlite.source import SqliteSource
from tests.support.byhand import Works

Step = Callable[[], object]
Prepare = Callable[[], Step]  # makes the changes of the next step, which are no part of what is profiled
_CUSTOMERS_PER_ORDER = 10
_ENGINE = {"match": TEMPLATE.format(0), "join": JOIN, "group": GROUP, "top": TOP}
NAMES = (*_ENGINE, "sqlite")
_SCHEMA = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, status TEXT)"
_LIVE = (
    "SELECT id, amount FROM orders WHERE customer = 3",
    "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 10",
)


@contextmanager
def prepared(name: str, rows: int, changes: int) -> Iterator[Prepare]:
    """The scenario with so many rows in it, and what makes a step of so many changes."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as directory:
            yield from _sqlite(Path(directory), rows, changes)
    else:
        yield _engine(name, rows, changes)


def _engine(name: str, rows: int, changes: int) -> Prepare:
    customers = max(1, rows // _CUSTOMERS_PER_ORDER)
    flowing = opened(_ENGINE[name], Traffic(rows, customers), customers if name == "match" else 1)

    def prepare() -> Step:
        deltas = flowing.traffic.step(changes, changes // 10 if name == "join" else 0)
        return lambda: flowing.step(deltas)

    return prepare


def _sqlite(directory: Path, rows: int, changes: int) -> Iterator[Prepare]:
    """In one thread: commit, capture, log, cell, hub, client."""
    works = Works(directory / "data", source=SqliteSource(directory / "shop.db"))
    works.write(_SCHEMA, *(_insert(id) for id in range(rows)))
    for sql in _LIVE:
        works.subscribe(sql)
    works.run()
    ids = iter(range(10**9))

    def commit(statements: list[str]) -> None:
        works.write(*statements)
        works.run()

    def prepare() -> Step:
        return partial(
            commit, [f"UPDATE orders SET amount = amount + 7 WHERE id = {next(ids) % rows}" for _ in range(changes)]
        )

    try:
        yield prepare
    finally:
        works.close()


def _insert(id: int) -> str:
    return f"INSERT INTO orders VALUES ({id}, {id % 50}, {id * 7919 % 10007}, 'open')"
