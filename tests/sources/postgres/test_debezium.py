"""Debezium follows the same server during the same random run: it tells the same transactions, change by change.

Its view is made of its own events alone: what it leaves out of an update (an old row, a large value that stayed) it has
told before.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headwater.model.change import Change, Transaction
from headwater.model.encoding.python_values import natural
from headwater.model.time.interval import Interval
from headwater.model.verbatim import Verbatim
from headwater.sources.postgres.source import PostgresSource
from tests.sources.replica import drained
from tests.support.debezium import UNCHANGED, Told, following
from tests.support.fuzz import MULTIPLIER
from tests.support.processes import eventually

pytestmark = [pytest.mark.debezium, pytest.mark.slow]
_PATIENCE_S = 120.0
_TRANSACTIONS = 60
_WRITERS = 3
_IDS = 12  # so few that keys are used again and again
_LARGE = 6000  # random letters that PostgreSQL puts elsewhere, and does not send again unless they change
_SPAN = re.compile(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?[\d.]+)S")


def _span(text: str) -> Interval:
    found = _SPAN.fullmatch(text)
    assert found is not None, text
    years, months, days, hours, minutes = map(int, found.groups()[:5])
    seconds = Decimal(found[6])
    return Interval(12 * years + months, days, int((seconds + 60 * minutes + 3600 * hours) * 1_000_000))


def _verbatim(type: str) -> Callable[[str], Any]:
    return lambda text: natural(Verbatim(type, text))


@dataclass(frozen=True, slots=True)
class Column:
    """`read` makes of what Debezium tells what our value is for a program; `value` is SQL with `{}` for a number."""

    type: str
    value: str
    read: Callable[[Any], Any] = lambda told: told


COLUMNS = {
    "word": Column("text", "'word {}'"),
    "price": Column("numeric(10, 2)", "{} / 7.0", Decimal),
    "exact": Column("numeric", "{} * 10000000000000000000.25", Decimal),
    "real": Column("float8", "{} / 3.0"),
    "big": Column("int8", "{}::int8 * 1000000000000"),
    "is_odd": Column("bool", "{} % 2 = 1"),
    "padded": Column("char(4)", "chr(97 + {} % 26)"),
    "day": Column("date", "date '2024-02-29' + {}", lambda told: date.fromisoformat(told.removesuffix("Z"))),
    "clock": Column(
        "time", "time '12:00' + {} * interval '1.000001 s'", lambda told: time.fromisoformat(told.removesuffix("Z"))
    ),
    "moment": Column(
        "timestamp",
        "timestamp '2024-02-29 01:02:03' + {} * interval '1 day 0.5 s'",
        lambda told: datetime.fromisoformat(told.removesuffix("Z")),
    ),
    "instant": Column(
        "timestamptz", "timestamptz '2024-02-29 01:02:03+09' + {} * interval '1 h'", datetime.fromisoformat
    ),
    "span": Column("interval", "{} * interval '1 mon -2 days 03:00:00.5'", _span),
    "id4": Column("uuid", "md5({}::text)::uuid", UUID),
    "raw": Column("bytea", "decode(lpad(to_hex({}), 8, '0'), 'hex')", bytes.fromhex),
    "tree": Column("jsonb", "jsonb_build_object('n', {}, 'list', jsonb_build_array(1, null))", json.loads),
    "mood": Column("mood", "(enum_range(null::mood))[1 + {} % 2]"),
    "small": Column("small", "{} % 100"),
    "numbers": Column("int[]", "array[{}, null, 3]"),
    "words": Column("text[]", "array['a,\"b\"', '{}']"),
    "address": Column("inet", "inet '10.0.0.0/8' + {}", _verbatim("inet")),
    "between": Column("int4range", "int4range({}, {} + 5)", _verbatim("int4range")),
    "large": Column("text", ""),
}
_TABLES = {"keyed": "PRIMARY KEY", "whole": "PRIMARY KEY", "bare": ""}
_CREATE = [
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE DOMAIN small AS int CHECK (VALUE < 1000)",
    *(
        f"CREATE TABLE {table} (id int {key}, {', '.join(f'{name} {one.type}' for name, one in COLUMNS.items())})"
        for table, key in _TABLES.items()
    ),
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "ALTER TABLE bare REPLICA IDENTITY FULL",
]
Fields = tuple[Any, ...]
Step = tuple[str, Fields | None, Fields | None]


# What was written


def _writer(url: str, seed: int) -> None:
    chance = random.Random(seed)
    with psycopg.connect(url) as db:
        for _ in range(_TRANSACTIONS * MULTIPLIER):
            try:
                _transaction(db, chance)
            except psycopg.Error:  # a key that is there, a deadlock
                db.rollback()


def _transaction(db: psycopg.Connection[Any], chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 6)):
        if chance.random() < 0.2:
            db.execute("SAVEPOINT here")
            db.execute(_statement(chance))
            db.execute("ROLLBACK TO here" if chance.random() < 0.5 else "RELEASE here")
        else:
            db.execute(_statement(chance))
    db.rollback() if chance.random() < 0.15 else db.commit()


def _statement(chance: random.Random) -> bytes:
    table, id, n = chance.choice(list(_TABLES)), chance.randrange(_IDS), chance.randrange(1000)
    match chance.choices(["insert", "update", "key", "delete", "truncate"], [10, 8, 3, 4, 0.3])[0]:
        case "insert":
            sql = f"INSERT INTO {table} VALUES ({id}, {', '.join(_values(chance, n))}) ON CONFLICT DO NOTHING"
        case "update":
            names = chance.sample(list(COLUMNS), chance.randrange(1, 4))
            given = dict(zip(COLUMNS, _values(chance, n), strict=True))
            sql = f"UPDATE {table} SET {', '.join(f'{name} = {given[name]}' for name in names)} WHERE id <= {id}"
        case "key":
            sql = f"UPDATE {table} SET id = {chance.randrange(_IDS)} WHERE id = {id}"
        case "delete":
            sql = f"DELETE FROM {table} WHERE id = {id}"
        case _:
            sql = f"TRUNCATE {table}"
    return sql.encode()


def _values(chance: random.Random, n: int) -> Iterator[str]:
    for name, one in COLUMNS.items():
        if chance.random() < 0.1:
            yield "NULL"
        elif name == "large":
            yield "'" + "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=_LARGE)) + "'"
        else:
            yield f"({one.value.replace('{}', str(n))})::{one.type}"


# What Debezium tells


@dataclass(slots=True)
class View:
    """The tables as Debezium's events make them."""

    rows: dict[str, Counter[Fields]] = field(default_factory=lambda: {table: Counter() for table in _TABLES})
    last: Fields | None = None  # the row of the event before: a changed key is told as a delete and an insert

    def steps(self, events: Sequence[Told]) -> list[Step]:
        return [step for event in events for step in self._steps(event)]

    def _steps(self, event: Told) -> list[Step]:
        held = self.rows[event.table]
        if event.op == "t":
            gone = list(held.elements())
            held.clear()
            return [(event.table, row, None) for row in gone]
        old = None if event.op == "c" else self._before(event)
        new = None if event.after is None else _read(event.after, old or self.last)
        self.last = old
        held -= Counter([old] if old is not None else [])
        held += Counter([new] if new is not None else [])
        self.rows[event.table] = held
        return [(event.table, old, new)]

    def _before(self, event: Told) -> Fields:
        """Whole where the table's identity is FULL; else the row by its key, which has not changed."""
        if event.table == "keyed":
            id = (event.before or event.after or {})["id"]
            [old] = [row for row in self.rows[event.table] if row[0] == id]
            return old
        assert event.before is not None
        old = _read(event.before, None)
        assert self.rows[event.table][old] > 0
        return old


def _read(told: dict[str, Any], old: Fields | None) -> Fields:
    """A large value that stayed as it was is as it was."""
    return (told["id"], *(_value(name, told[name], old, place) for place, name in enumerate(COLUMNS, 1)))


def _value(name: str, told: Any, old: Fields | None, place: int) -> Any:
    if told == UNCHANGED:
        assert old is not None
        return old[place]
    return None if told is None else _frozen(COLUMNS[name].read(told))


# What we tell


def _ours(changes: Sequence[Change]) -> list[Step]:
    """A changed key is a delete and an insert to Debezium, where there is a key."""
    return [step for change in changes for step in _split(change)]


def _split(change: Change) -> list[Step]:
    old, new = (
        None if row is None else tuple(_frozen(natural(value)) for value in row) for row in (change.old, change.new)
    )
    if old is not None and new is not None and _TABLES[change.table] and old[0] != new[0]:
        return [(change.table, old, None), (change.table, None, new)]
    return [(change.table, old, new)]


def _frozen(value: Any) -> Any:
    """To the digit, and so that it can be counted."""
    match value:
        case list() | dict():
            return json.dumps(value, sort_keys=True)
        case None | bool() | int() | bytes():
            return value
        case _:
            return str(value)


def test_debezium_tells_the_same(source: PostgresSource, db: psycopg.Connection[Any], url: str, tmp_path: Path) -> None:
    for statement in _CREATE:
        db.execute(statement.encode())
    for table in _TABLES:
        source.capture(table)
    start = source.position()
    with following(url, tmp_path, list(_TABLES)) as debezium:
        writers = [threading.Thread(target=_writer, args=(url, seed)) for seed in range(_WRITERS)]
        for writer in writers:
            writer.start()
        items = _taken(source, start, writers)
        eventually(lambda: [one.position for one in debezium.transactions()][-1:] >= [items[-1].position], _PATIENCE_S)
        told = [one for one in debezium.transactions() if one.events]
    view = View()
    theirs = [(one.position, view.steps(one.events)) for one in told]
    theirs = [(position, steps) for position, steps in theirs if steps]
    assert [position for position, _ in theirs] == [item.position for item in items]
    for item, (_, steps) in zip(items, theirs, strict=True):
        _agree(_ours(item.changes), steps)
    kinds = Counter(event.op for one in told for event in one.events)
    assert min(kinds[op] for op in "cudt") > 0, kinds


def _taken(source: PostgresSource, start: int, writers: Sequence[threading.Thread]) -> list[Transaction]:
    """Taken while they write: PostgreSQL gives up on who does not read for a minute."""
    items: list[Any] = []
    while any(writer.is_alive() for writer in writers):
        items += source.changes(max([start, *(item.position for item in items[-1:])]), 0.1)
    items += drained(source, max([start, *(item.position for item in items[-1:])]), _PATIENCE_S)
    return [item for item in items if isinstance(item, Transaction) and item.changes]


def _agree(ours: list[Step], theirs: list[Step]) -> None:
    """In order; of the deletes of one TRUNCATE there is none."""
    if Counter(ours) != Counter(theirs) or _written(ours) != _written(theirs):
        raise AssertionError("\n".join(f"{a}\n{b}" for a, b in zip_longest(ours, theirs) if a != b))


def _written(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step[2] is not None]
