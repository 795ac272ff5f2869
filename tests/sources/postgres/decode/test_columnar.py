"""What is read as columns equals what is read row by row, for any messages cut anywhere; and stays equal when it is
settled, rewound and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.columnar_changes import TransactionSlice
from headwater.model.errors import SourceError
from headwater.model.limits import Limits
from headwater.model.schema import Column, Table
from headwater.model.value import from_array
from headwater.pipeline.records.frame import decode_frame, encode_frames
from headwater.sources.postgres import stream
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.row_cache.row_cache import RowCache
from headwater.sources.postgres.server.connections import Sessions
from headwater.sources.postgres.server.value_types import BUILT_IN
from headwater.sources.postgres.stream import Slot, Stream
from headwater.sources.postgres.wire import transaction_assembly
from headwater.sources.postgres.wire.messages import (
    UNCHANGED,
    Begin,
    Cells,
    Commit,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from headwater.sources.postgres.wire.replication import Received
from headwater.sources.source import SchemaChange
from tests.sources.postgres.wire.encoder import written
from tests.sources.replica import exact
from tests.support.fuzz import tries

Image = tuple[bytes | None, ...]
VALUES: dict[int, list[bytes]] = {
    23: [b"-5", b"0", b"2147483647"],
    20: [b"-9223372036854775808", b"9223372036854775807"],
    25: [b"", b"x", "größer ☃".encode(), b"a\nb", b"x" * 300],
    701: [b"1.5", b"-0", b"0", b"NaN", b"-Infinity", b"1e-307", b"0.1", b"1e+20"],
    700: [b"1.1", b"3.4028235e+38"],
    16: [b"t", b"f"],
    17: [b"\\x", b"\\x00ff5c"],
    1700: [b"1.50", b"1.5", b"NaN", b"Infinity", b"123456789012345678901234567890.123456789", b"0.00"],
    1082: [b"2024-02-29", b"infinity", b"0044-03-15 BC", b"10000-01-01", b"0001-01-01"],
    1083: [b"23:59:59.999999", b"24:00:00", b"00:00:00", b"12:30:00.5"],
    1114: [
        b"2024-02-29 12:34:56.789",
        b"-infinity",
        b"0044-03-15 12:00:00 BC",
        b"0001-01-01 00:00:00",
        b"1969-12-31 23:59:59.1",
    ],
    1184: [b"2024-02-29 03:34:56.789+00", b"infinity", b"1999-12-31 23:59:59+00"],
    1186: [b"1 year 2 mons -3 days +04:05:06.7", b"00:00:00"],
    2950: [b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", b"00000000-0000-0000-0000-000000000000"],
    3802: [b'{"a": [null, "x"]}', b"1.50"],
    1007: [b"{1,NULL,3}", b"{}", b"[0:1]={1,2}"],
    869: [b"192.168.0.1/24"],
}
KEYS = {
    23: [b"%d" % n for n in range(9)],
    25: [b"a", b"b", b""],
    1700: [b"1", b"1.0", b"2.5", b"3"],
    2950: VALUES[2950],
}


@dataclass(frozen=True)
class Shaped:
    """A table: the types of its columns, the places of its key, and what an update tells of the old row."""

    oid: int
    types: tuple[int, ...]
    key: tuple[int, ...]
    identity: str  # d: the key where it changes; f: all of it; n: there is no key, so all of it

    @property
    def names(self) -> list[str]:
        return [f"c{n}" for n in range(len(self.types))]

    @property
    def capture(self) -> CapturedTable:
        columns = tuple(Column(name, BUILT_IN.type_of(type)) for name, type in zip(self.names, self.types, strict=True))
        key = tuple(self.names[place] for place in self.key) if self.identity != "n" else ()
        places = self.key if self.identity != "n" else tuple(range(len(self.types)))
        return CapturedTable(self.oid, Table(f"t{self.oid}", columns, key), self.types, places, 0)

    @property
    def relation(self) -> Relation:
        described = zip(self.names, self.types, strict=True)
        told = range(len(self.types)) if self.identity != "d" else self.key
        columns = tuple(RelationColumn(n in told, name, type, -1) for n, (name, type) in enumerate(described))
        return Relation(0, self.oid, "public", f"t{self.oid}", "f" if self.identity != "d" else "d", columns)

    def named(self, image: Image) -> Image:
        return tuple(_canonical(image[place]) if self.identity != "n" else image[place] for place in self.places)

    @property
    def places(self) -> tuple[int, ...]:
        return self.key if self.identity != "n" else tuple(range(len(self.types)))


def _canonical(text: bytes | None) -> bytes | None:
    return b"1" if text == b"1.0" else text


def _shape(chance: Random, oid: int) -> Shaped:
    key = chance.choice([(23,), (25,), (1700,), (23, 25), (2950,)])
    types = [*key, *chance.choices(sorted(VALUES), k=chance.randrange(5))]
    order = chance.sample(range(len(types)), len(types))
    places = tuple(order.index(n) for n in range(len(key)))
    return Shaped(oid, tuple(types[n] for n in order), places, chance.choice("dddfn"))


@dataclass
class Server:
    """What PostgreSQL would say of random transactions."""

    shapes: list[Shaped]
    chance: Random
    rows: dict[int, dict[Image, Image]] = field(default_factory=dict)
    position: int = 1000

    def transactions(self) -> Iterator[list[Message]]:
        yield self._transaction([shape.relation for shape in self.shapes])
        for _ in range(self.chance.randrange(1, 15)):
            said = [one for _ in range(self.chance.randrange(6)) for one in self._said()]
            yield self._transaction(said)

    def _transaction(self, said: Sequence[Message]) -> list[Message]:
        self.position += 100
        return [Begin(self.position - 9, 0, self.position), *said, Commit(self.position - 9, self.position, 0)]

    def _said(self) -> list[Message]:
        shape = self.chance.choice(self.shapes)
        rows = self.rows.setdefault(shape.oid, {})
        kind = self.chance.choice(["I", "I", "U", "U", "U", "D", "unchanged", "key", "T", "O", "stranger"])
        if kind == "O":
            return [Origin(7, "elsewhere")] if self.chance.randrange(10) == 0 else []
        if kind == "stranger":
            return [Insert(0, 4711, (b"1",))]
        if kind == "T":
            if self.chance.randrange(10):
                return []
            rows.clear()
            return [Truncate(0, (shape.oid,), False, False)]
        return self._insert(shape, rows) if kind == "I" or not rows else self._touch(shape, rows, kind)

    def _image(self, shape: Shaped) -> Image:
        def value(place: int, type: int) -> bytes | None:
            if place in shape.key:
                return self.chance.choice(KEYS[type])
            return self.chance.choice([None, *VALUES[type]])

        return tuple(value(place, type) for place, type in enumerate(shape.types))

    def _insert(self, shape: Shaped, rows: dict[Image, Image]) -> list[Message]:
        image = self._image(shape)
        if shape.named(image) in rows:
            return []
        rows[shape.named(image)] = image
        return [Insert(0, shape.oid, image)]

    def _touch(self, shape: Shaped, rows: dict[Image, Image], kind: str) -> list[Message]:
        old = rows.pop(self.chance.choice(sorted(rows, key=repr)))
        whole = shape.identity != "d"
        if kind == "D":
            return [Delete(0, shape.oid, old if whole else self._key(shape, old), whole)]
        fresh = self._image(shape)
        new = fresh if kind == "key" else tuple(old[n] if n in shape.key else value for n, value in enumerate(fresh))
        if shape.named(new) in rows:
            new = old
        rows[shape.named(new)] = new
        cells: Cells = new
        if kind == "unchanged":
            new = rows[shape.named(new)] = (*new[:-1], old[-1])
            cells = (*new[:-1], UNCHANGED) if len(new) - 1 not in shape.key and old[-1] is not None else new
            if shape.identity == "n":
                cells = new
        moved = tuple(new[n] for n in shape.key) != tuple(old[n] for n in shape.key)
        named = old if whole else self._key(shape, old) if moved else None
        return [Update(0, shape.oid, named, whole, cells)]

    def _key(self, shape: Shaped, image: Image) -> Image:
        return tuple(value if n in shape.key else None for n, value in enumerate(image))


def _stream(directory: Path, shapes: Sequence[Shaped]) -> tuple[Stream, RowCache]:
    row_cache = RowCache(directory)
    for shape in shapes:
        if shape.oid not in row_cache.captures:
            row_cache.seed(shape.capture, [])
            row_cache.begin(shape.capture)
    made = Stream(cast(Sessions, None), Slot("slot", 0), row_cache, lambda _: (None, BUILT_IN), lambda *_: None)
    for shape in shapes:  # as every connection is told, sooner or later
        made.decoder._described(shape.relation, made.position)
    return made, row_cache


def _said(items: Sequence[Any], shapes: Sequence[Shaped]) -> list[tuple[int, dict[str, list[Any]]]]:
    tables = {shape.capture.table.name: shape.capture.table for shape in shapes}
    return [(item.position, _by_table(coalesce(item, tables).changes)) for item in items]


def _logged(items: Sequence[Any], shapes: Sequence[Shaped]) -> list[Any]:
    """What a reader of the log would find, in frames that are too small for most transactions."""
    tables = {shape.capture.table.name: shape.capture.table for shape in shapes}
    net = [item if isinstance(item.changes, TransactionSlice) else coalesce(item, tables) for item in items]
    found: list[Any] = []
    payloads = map(b"".join, encode_frames(net, tables, limits=Limits(frame_bytes_max=1500)))
    for frame in map(decode_frame, payloads):
        for section in frame.sections:
            *columns, tx, diff = section.batch.columns
            types = [column.type for column in tables[section.table].columns]
            rows = zip(*(from_array(one, type) for one, type in zip(columns, types, strict=True)), strict=True)
            positions = [frame.positions[at] for at in tx.to_pylist()]
            images = zip(positions, diff.to_pylist(), map(exact, rows), strict=True)
            found += [(section.table, section.schema_id, *image) for image in images]
    return sorted(found, key=lambda one: one[:3])


def _by_table(changes: Sequence[Change]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for change in changes:
        images = [None if image is None else exact(image) for image in (change.old, change.new)]
        found.setdefault(change.table, []).append(images)
    return found


def _kept(row_cache: RowCache, shapes: Sequence[Shaped]) -> list[list[str]]:
    return [
        sorted(map(repr, ((exact(one.row), one.count) for one in row_cache.all(shape.capture)))) for shape in shapes
    ]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, however few rows there are."""
    monkeypatch.setattr(transaction_assembly, "SIMPLE_MIN", 2)
    monkeypatch.setattr(stream, "SIMPLE_MIN", 2)


@tries(200)
@given(st.integers(0, 1 << 32))
def _equal(seed: int) -> None:
    chance = Random(seed)
    shapes = [_shape(chance, oid) for oid in range(1, chance.randrange(2, 4))]
    told = list(Server(shapes, chance).transactions())
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        _follow(chance, Path(one), Path(two), shapes, [written(message) for one in told for message in one])


def _follow(chance: Random, one: Path, two: Path, shapes: Sequence[Shaped], payloads: list[bytes]) -> None:
    rows, kept_rows = _stream(one, shapes)
    rows._commit_all(transaction_assembly.Assembly().take_each(payloads))
    columns, kept_columns = _stream(two, shapes)
    found: list[Any] = []
    logged: list[Any] = []
    at = 0
    while at < len(payloads):
        size = chance.randrange(1, len(payloads) + 1)
        columns._received(Received(payloads[at : at + size], 0))
        at += size
        items = columns.take(found[-1][0] if found else 0, 1 << 30)
        logged += _logged(items, shapes)
        found += _said(items, shapes)
        match chance.choice(["go on", "go on", "settle", "settle", "tidy", "again"]):
            case "settle":
                kept_columns.settle(chance.randrange(columns.position + 1))
            case "tidy":
                kept_columns.tidy()
            case "again":
                columns, kept_columns = _stream(two, shapes)
                at = 0
            case _:
                pass
    expected = rows.take(0, 1 << 30)
    assert sorted(logged, key=lambda one: one[:3]) == _logged(expected, shapes)
    assert found == _said(expected, shapes)
    assert _kept(kept_columns, shapes) == _kept(kept_rows, shapes)


@pytest.mark.slow
def test_columns_are_what_rows_are(always: None) -> None:
    _equal()


def test_columns_are_used_and_made_into_rows_only_when_looked_at(tmp_path: Path, always: None) -> None:
    shape = Shaped(1, (23, 25), (0,), "d")
    columns, _ = _stream(tmp_path, [shape])
    inserted = [Insert(0, 1, (b"%d" % n, b"x")) for n in range(5)]
    updated = [Update(0, 1, None, False, (b"%d" % n, b"x" if n else b"y")) for n in range(5)]
    for said in ([shape.relation], inserted, updated, [Delete(0, 1, (b"3", None), False)]):
        position = columns.position + 100
        messages: list[Message] = [Begin(position, 0, 1), *said, Commit(position, position, 0)]
        columns._received(Received([written(message) for message in messages], 0))
    first, second, third = (item for item in columns.take(0, 100) if isinstance(item, Transaction))
    assert isinstance(first.changes, TransactionSlice)
    assert len(first.changes) == 5
    assert first.changes[1] == Change("t1", None, (1, "x"))
    assert first.changes[1:3] == (Change("t1", None, (1, "x")), Change("t1", None, (2, "x")))
    assert second.changes == (Change("t1", (0, "x"), (0, "y")),)
    assert third == Transaction(third.position, (Change("t1", (3, "x"), None),))
    assert isinstance(third.changes, TransactionSlice)
    assert not third.changes.among({"other"})


@pytest.mark.parametrize("said", [Update(0, 1, None, False, (b"9", b"x")), Delete(0, 1, (b"9", None), False)])
def test_a_row_that_is_not_known_ends_its_table(tmp_path: Path, always: None, said: Message) -> None:
    shape = Shaped(1, (23, 25), (0,), "d")
    columns, _ = _stream(tmp_path, [shape])
    messages: list[Message] = [
        Begin(100, 0, 1),
        shape.relation,
        Commit(100, 100, 0),
        Begin(200, 0, 1),
        said,
        Commit(200, 200, 0),
    ]
    columns._received(Received([written(message) for message in messages], 0))
    (end,) = columns.take(0, 100)
    assert isinstance(end, SchemaChange) and end.after is None and end.lost
    assert end.reason == "a row of table t1 changed that Headwater does not know"


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_row_that_ends_behind_its_message(tmp_path: Path, always: None, cut: int) -> None:
    shape = Shaped(1, (23, 25), (0,), "d")
    columns, _ = _stream(tmp_path, [shape])
    messages: list[Message] = [Begin(100, 0, 1), shape.relation, Commit(100, 100, 0)]
    columns._received(Received([written(message) for message in messages], 0))
    row = written(Insert(0, 1, (b"9", b"xyz")))[:-cut]
    with pytest.raises(SourceError):
        columns._received(Received([written(Begin(200, 0, 1)), row, written(Commit(200, 200, 0))], 0))
