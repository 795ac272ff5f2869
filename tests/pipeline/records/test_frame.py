"""Frames: what goes in comes out, bit for bit, in the partition where it belongs, within the limits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.record import tx_of
from headwater.model.change import Change, Transaction
from headwater.model.encoding.keys import hash_row
from headwater.model.errors import Corrupt
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value, field_type, from_array, pack_any
from headwater.pipeline.records import frame as module
from headwater.pipeline.records.frame import DIFF, RENAMES, TX, Frame, decode_frame
from tests.support.fuzz import MULTIPLIER as FUZZ
from tests.support.values import OF_TYPE

KEYED = Table("keyed", (Column("id", Type.INTEGER), Column("name", Type.TEXT)), ("id",), schema_id=7)
NOCASE = Table("nocase", (Column("name", Type.TEXT, collation="NOCASE"), Column("n", Type.INTEGER)), ("name",))
PAIR = Table("pair", (Column("a", Type.TEXT), Column("b", Type.INTEGER), Column("c", Type.REAL)), ("b", "a"))
EVERY = Table("every", tuple(Column(type.value, type) for type in Type), schema_id=1)
TABLES = {table.name: table for table in (KEYED, NOCASE, PAIR, EVERY)}

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values: dict[Type, st.SearchStrategy[Value]] = {
    **OF_TYPE,
    Type.INTEGER: integers,
    Type.REAL: st.floats(),
    Type.TEXT: texts,
    Type.BLOB: st.binary(max_size=8),
    Type.ANY: integers | st.floats() | texts | st.binary(max_size=8),
}


def rows_of(table: Table) -> st.SearchStrategy[Row]:
    return st.tuples(
        *(
            values[column.type] if column.name in table.key else st.none() | values[column.type]
            for column in table.columns
        )
    )


rows = {name: rows_of(table) for name, table in TABLES.items()}


def change(table: str) -> st.SearchStrategy[Change]:
    insert = st.builds(Change, st.just(table), st.none(), rows[table])
    delete = st.builds(Change, st.just(table), rows[table], st.none())
    return insert | delete | st.builds(Change, st.just(table), rows[table], rows[table])


changes = st.sampled_from(sorted(TABLES)).flatmap(change)
transactions = st.lists(
    st.builds(Transaction, st.integers(0, 2**63 - 1), st.lists(changes, max_size=6).map(tuple)), min_size=1, max_size=6
)


def exact(value: Value) -> object:
    """Equal only where the bits are."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return pack_any(value) if isinstance(value, Decimal | tuple) else (type(value), value)


def encode_frames(
    given: Sequence[Transaction], tables: dict[str, Table], *, partitions: int = 1, limits: Limits = DEFAULT
) -> list[bytes]:
    """Whole, as they are read."""
    return [b"".join(one) for one in module.encode_frames(given, tables, partitions=partitions, limits=limits)]


def images(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    """The rows of a section: values, tx, diff."""
    fields, columns = [*batch.schema], batch.columns
    values = [from_array(column, field_type(field)) for column, field in zip(columns[:-2], fields[:-2], strict=True)]
    plain = [[exact(value) for value in column] for column in values]
    return list(zip(*plain, columns[-2].to_pylist(), columns[-1].to_pylist(), strict=True))


def expected_partition(one: Change, partitions: int) -> int:
    image = one.old if one.old is not None else one.new
    assert image is not None
    return identity_hash(one.table, image) % partitions


def identity_hash(name: str, image: Row) -> int:
    table = TABLES[name]
    places = [table.index(column) for column in table.identity]
    return hash_row(tuple(image[place] for place in places), [table.columns[place].collation for place in places])


def expected(given: Sequence[Transaction], partitions: int) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    sections: dict[tuple[str, int], list[tuple[object, ...]]] = {}
    for ordinal, transaction in enumerate(given):
        for one in transaction.changes:
            section = sections.setdefault((one.table, expected_partition(one, partitions)), [])
            for image, diff in ((one.old, -1), (one.new, 1)):
                if image is not None:
                    section.append((*map(exact, as_stored(TABLES[one.table], image)), ordinal, diff))
    return sections


def as_stored(table: Table, image: Row) -> Row:
    return tuple(
        float(value) if column.type is Type.REAL and isinstance(value, int) else value
        for column, value in zip(table.columns, image, strict=True)
    )


def renamed(given: Sequence[Transaction]) -> list[tuple[int, int, int]]:
    hashes = [
        (ordinal, identity_hash(one.table, one.old), identity_hash(one.table, one.new))
        for ordinal, transaction in enumerate(given)
        for one in transaction.changes
        if one.old is not None and one.new is not None
    ]
    return sorted(each for each in hashes if each[1] != each[2])


@pytest.mark.slow
@settings(max_examples=100 * FUZZ, deadline=None, derandomize=True)
@given(transactions, st.sampled_from([1, 2, 5]))
def test_a_frame_is_what_was_put_in(given: list[Transaction], partitions: int) -> None:
    (payload,) = encode_frames(given, TABLES, partitions=partitions)
    frame = decode_frame(payload)
    assert frame.positions == tuple(one.position for one in given)
    assert frame.position == given[-1].position and frame.part is None
    assert {(one.table, one.partition): images(one.batch) for one in frame.sections} == expected(given, partitions)
    assert renames(frame) == renamed(given)
    for section in frame.sections:
        assert section.schema_id == TABLES[section.table].schema_id
        fields = [*TABLES[section.table].arrow, TX, DIFF]
        assert section.batch.schema.equals(pa.schema(fields), check_metadata=True)


def renames(frame: Frame) -> list[tuple[int, int, int]]:
    batches = [section.renames for section in frame.sections if section.renames is not None]
    return sorted(
        row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )


@pytest.mark.slow
@settings(max_examples=50 * FUZZ, deadline=None, derandomize=True)
@given(transactions, st.integers(1, 4), st.integers(1, 3000), st.integers(1, 4))
def test_within_small_limits_nothing_is_lost_or_reordered(
    given: list[Transaction], partitions: int, bytes_max: int, transactions_max: int
) -> None:
    limits = Limits(frame_bytes_max=bytes_max, frame_transactions_max=transactions_max)
    frames = [decode_frame(one) for one in encode_frames(given, TABLES, partitions=partitions, limits=limits)]
    assert all(len(frame.positions) <= transactions_max for frame in frames)
    assert [at for frame in frames if frame.position is not None for at in frame.positions] == [
        one.position for one in given
    ]
    found: dict[tuple[str, int], list[tuple[object, ...]]] = {}
    done = 0
    for frame in frames:
        for section in frame.sections:
            shifted = [(*row[:-2], row[-2] + done, row[-1]) for row in images(section.batch)]  # type: ignore[operator]
            found.setdefault((section.table, section.partition), []).extend(shifted)
        done += len(frame.positions) if frame.position is not None else 0
    assert found == expected(given, partitions)


def insert(n: int, size: int = 10) -> Change:
    return Change("keyed", None, (n, "x" * size))


def test_a_large_transaction_comes_in_parts_between_its_neighbours() -> None:
    large = Transaction(2, tuple(insert(n, 100) for n in range(1000)))
    given = [Transaction(1, (insert(1),)), large, Transaction(3, (insert(2),))]
    payloads = encode_frames(given, TABLES, limits=Limits(frame_bytes_max=20_000))
    frames = [decode_frame(payload) for payload in payloads]
    assert all(len(payload) <= 20_200 for payload in payloads)
    assert frames[0].part is None and frames[-1].part is None
    parts = frames[1:-1]
    assert [frame.part for frame in parts] == [(n, n == len(parts) - 1) for n in range(len(parts))]
    assert 5 < len(parts) < 20
    assert {frame.positions for frame in parts} == {(2,)}
    assert [frame.position for frame in parts] == [None] * (len(parts) - 1) + [2]
    ids = [id for frame in parts for id in frame.sections[0].batch.column(0).to_pylist()]
    assert ids == list(range(1000))


def test_a_change_larger_than_a_frame_is_a_part_of_its_own() -> None:
    given = [Transaction(1, (insert(1), insert(2, 5000), insert(3)))]
    frames = [decode_frame(one) for one in encode_frames(given, TABLES, limits=Limits(frame_bytes_max=2000))]
    assert [frame.sections[0].batch.column(0).to_pylist() for frame in frames] == [[1], [2], [3]]
    assert frames[-1].part == (2, True)


def test_a_transaction_without_changes_tells_a_position() -> None:
    (payload,) = encode_frames([Transaction(99, ())], {})
    assert decode_frame(payload) == Frame((99,), None, ())
    assert len(payload) < 32


def test_no_transactions_are_no_frames() -> None:
    assert encode_frames([], {}) == []


def test_the_ordinal_has_sixteen_bits() -> None:
    given = [Transaction(n, ()) for n in range(70_000)]
    frames = [decode_frame(one) for one in encode_frames(given, {}, limits=Limits(frame_transactions_max=1 << 20))]
    assert [len(frame.positions) for frame in frames] == [65_536, 70_000 - 65_536]


def test_ordinals_become_txs() -> None:
    given = [Transaction(1, (insert(1),)), Transaction(2, (Change("keyed", (1, "a"), (2, "a")),))]
    (payload,) = encode_frames(given, TABLES)
    (section,) = decode_frame(payload, offset=40).sections
    assert section.batch.column(2).to_pylist() == [tx_of(40, 0), tx_of(40, 1), tx_of(40, 1)]
    assert section.renames is not None and section.renames.column(0).to_pylist() == [tx_of(40, 1)]
    assert section.batch.schema.equals(pa.schema([*KEYED.arrow, TX, DIFF]), check_metadata=True)
    assert section.renames.schema == RENAMES


def test_a_change_of_case_is_no_rename_where_the_collation_sees_none() -> None:
    given = [Transaction(1, (Change("nocase", ("a", 1), ("A", 1)), Change("keyed", (1, "a"), (1, "A"))))]
    (payload,) = encode_frames(given, TABLES)
    assert all(section.renames is None for section in decode_frame(payload).sections)


def test_a_reader_gets_only_its_sections() -> None:
    given = [Transaction(1, (*map(insert, range(100)), Change("pair", ("a", 1, 1.5), None)))]
    (payload,) = encode_frames(given, TABLES, partitions=4)
    assert {one.table for one in decode_frame(payload).sections} == {"keyed", "pair"}
    assert {one.table for one in decode_frame(payload, {"pair"}).sections} == {"pair"}
    mine = decode_frame(payload, {"keyed"}, partition=2)
    assert [(one.table, one.partition) for one in mine.sections] == [("keyed", 2)]
    assert decode_frame(payload, set()).sections == () and decode_frame(payload, set()).positions == (1,)


def test_columns_may_be_called_tx_and_diff() -> None:
    table = Table("t", (Column("tx", Type.INTEGER), Column("diff", Type.TEXT)), ("tx",))
    (payload,) = encode_frames([Transaction(1, (Change("t", None, (5, "x")),))], {"t": table})
    (section,) = decode_frame(payload, offset=2).sections
    assert [column.to_pylist() for column in section.batch.columns] == [[5], ["x"], [tx_of(2, 0)], [1]]


def test_every_shortened_frame_is_corrupt() -> None:
    given = [Transaction(1, (Change("keyed", (1, "a"), (2, "a")),))]
    (payload,) = encode_frames(given, TABLES)
    for end in range(len(payload)):
        with pytest.raises(Corrupt, match="malformed frame"):
            decode_frame(payload[:end])


def framed(header: object, body: bytes = b"") -> bytes:
    encoded = msgspec.msgpack.encode(header)
    head = struct.pack("<4sI", b"HWF1", len(encoded)) + encoded
    return head + bytes(-len(head) % 8) + body


def stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


OTHER = stream(pa.record_batch({"a": [1], "b": [2], "c": [3]}))


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "header"),
        (b"JSON{}..", "begin with"),
        (framed("text"), "header"),
        (framed([[1], None]), "header"),
        (framed([[1], None, [["t", 0, 0, [-8, 8], None]]]), "fill bytes"),
        (framed([[1], None, [["t", 0, 0, [0, 1 << 60], None]]]), "fill bytes"),
        (framed([[1], None, [["t", 0, 0, [0, 0], None]]]), "no Arrow stream"),
        (framed([[1], None, [["t", 0, 0, [0, 64], None]]], bytes(range(64))), "no Arrow stream"),
        (framed([[1], None, [["t", 0, 0, [0, len(OTHER)], None]]], OTHER), "tx and diff"),
    ],
)
def test_what_is_no_frame_is_corrupt_and_says_why(payload: bytes, says: str) -> None:
    with pytest.raises(Corrupt, match=says):
        decode_frame(payload)
