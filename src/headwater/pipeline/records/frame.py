"""The payload of a FRAME record: whole transactions as Arrow columns, in sections per table and write partition.

    8 bytes: "HWF1", length of the header · header (msgpack): positions, part, sections with their byte ranges
    then for each section its rows, and its renames where there are any: an Arrow schema and a batch, as in an IPC
    stream, each at a multiple of 8

A reader decodes the sections it asks for and touches no other byte. The record's checksum guards all of it.
Never coalesces and never orders: transactions come as they shall be read.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from headwater.log.record import Piece, tx_of
from headwater.model.change import Change, Transaction
from headwater.model.columnar_changes import columnar_runs, columns_of
from headwater.model.encoding.keys import hash_row
from headwater.model.errors import Corrupt
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import PLAIN, FewRows, Row, to_array

_PREFIX = struct.Struct("<4sI")
_MAGIC = b"HWF1"
_ALIGN_BYTES = 8
_MESSAGE_PREFIX = 8  # of an Arrow message: a mark, then the length of what describes it; a schema has no more
_ORDINALS_MAX = 1 << 16
_SPLIT_SLACK = 1.25  # pieces of equal count differ in bytes

TX, DIFF = pa.field("tx", pa.int64()), pa.field("diff", pa.int8())
RENAMES = pa.schema([TX, pa.field("old_hash", pa.uint64()), pa.field("new_hash", pa.uint64())])

_RENAMES_WRITTEN = RENAMES.serialize().to_pybytes()


@dataclass(frozen=True, slots=True)
class Section:
    """The changes of one table in one write partition, in order.

    `batch` has the table's columns and then, always the last two, `tx` and `diff`: an update is two rows, −1 with the
    old image and then +1 with the new. `renames` says which row became which other: (tx, old_hash, new_hash).
    """

    table: str
    partition: int
    schema_id: int
    batch: pa.RecordBatch
    renames: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class Frame:
    """`positions` holds the source position after each transaction, by ordinal.

    `part` is (n, last) where the frame is the n-th part of one transaction. The transaction's tx is that of its last
    part, so parts are best kept as they are and decoded with the last one's offset. A part 0 begins anew: parts that
    came before it without a last one were cut off by a crash and never count.
    """

    positions: tuple[int, ...]
    part: tuple[int, bool] | None
    sections: tuple[Section, ...]

    @property
    def position(self) -> int | None:
        """The source position that is reached with this frame; None where the transaction goes on."""
        return self.positions[-1] if self.positions and (self.part is None or self.part[1]) else None


class _SectionHeader(msgspec.Struct, array_like=True, frozen=True):
    table: str
    partition: int
    schema_id: int
    rows: tuple[int, int]  # begin and length, from the end of the header on
    renames: tuple[int, int] | None


class _FrameHeader(msgspec.Struct, array_like=True, frozen=True):
    positions: tuple[int, ...]
    part: tuple[int, bool] | None
    sections: tuple[_SectionHeader, ...]


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_FrameHeader).decode


def encode_frames(
    transactions: Sequence[Transaction],
    tables: Mapping[str, Table],
    *,
    partitions: int = 1,
    limits: Limits = DEFAULT,
) -> list[Sequence[Piece]]:
    """The payloads that hold these transactions, each within the limits; a transaction over them comes in parts.

    Transactions are coalesced: one change per row. One without changes only tells a position.
    A single change larger than `frame_bytes_max` is a part of its own, as large as it is. Transactions that come as
    columns have frames of their own.
    """
    by_rows = functools.partial(_encode_body, tables=tables, partitions=partitions)
    count = min(limits.frame_transactions_max, _ORDINALS_MAX)
    frames: list[Sequence[Piece]] = []
    for has_columns, neighbours in columnar_runs(transactions):
        encode = _encode_columns if has_columns and partitions == 1 else by_rows
        for at in range(0, len(neighbours), count):
            frames += _frames(neighbours[at : at + count], encode, limits.frame_bytes_max)
    return frames


def decode_frame(
    payload: bytes, tables: Container[str] | None = None, partition: int | None = None, offset: int = 0
) -> Frame:
    """The frame with the sections of these tables and this partition; None is all. `tx` is `tx_of(offset, ordinal)`."""
    header, body = _open(payload)
    wanted = (
        section
        for section in header.sections
        if (tables is None or section.table in tables) and (partition is None or section.partition == partition)
    )
    return Frame(header.positions, header.part, tuple(_decode_section(section, body, offset) for section in wanted))


# Encoding


class _Body:
    """Encoded sections, one after the other."""

    __slots__ = ("chunks", "sections", "size")

    def __init__(self) -> None:
        self.sections: list[_SectionHeader] = []
        self.chunks: list[Piece] = []
        self.size = 0

    def place(self, batch: pa.RecordBatch, schema: bytes) -> tuple[int, int]:
        """Adds the batch, behind its schema; says where they are."""
        encoded = memoryview(batch.serialize())
        padding = _padding(self.size)
        begin = self.size + len(padding)
        self.chunks += [padding, schema, encoded]
        self.size = begin + len(schema) + len(encoded)
        return begin, len(schema) + len(encoded)


_Encode = Callable[[Sequence[Transaction]], _Body]


def _frames(group: Sequence[Transaction], encode: _Encode, bytes_max: int) -> Iterator[Sequence[Piece]]:
    """One frame if it fits; else as many as its size suggests, each tried in turn."""
    body = encode(group)
    if body.size <= bytes_max:
        yield _sealed(group, None, body)
    elif len(group) > 1:
        for piece in _pieces(group, body.size / bytes_max):
            yield from _frames(piece, encode, bytes_max)
    else:
        yield from _parts(group[0], body, encode, bytes_max)


def _parts(transaction: Transaction, whole: _Body, encode: _Encode, bytes_max: int) -> Iterator[Sequence[Piece]]:
    bodies = _split(transaction.changes, transaction.position, whole, encode, bytes_max)
    for n, body in enumerate(bodies):
        yield _sealed([transaction], (n, n == len(bodies) - 1), body)


def _split(changes: Sequence[Change], position: int, body: _Body, encode: _Encode, bytes_max: int) -> list[_Body]:
    if body.size <= bytes_max or len(changes) <= 1:
        return [body]
    bodies: list[_Body] = []
    for piece in _pieces(changes, body.size / bytes_max):
        smaller = encode([Transaction(position, piece)])
        bodies += _split(piece, position, smaller, encode, bytes_max)
    return bodies


def _pieces(items: Sequence[Any], excess: float) -> list[Sequence[Any]]:
    """At least two pieces of equal count."""
    count = max(1, min(math.ceil(len(items) / 2), int(len(items) / (excess * _SPLIT_SLACK))))
    return [items[at : at + count] for at in range(0, len(items), count)]


def _sealed(transactions: Sequence[Transaction], part: tuple[int, bool] | None, body: _Body) -> Sequence[Piece]:
    header = _encode_header(_FrameHeader(tuple(one.position for one in transactions), part, tuple(body.sections)))
    return (_PREFIX.pack(_MAGIC, len(header)), header, _padding(_PREFIX.size + len(header)), *body.chunks)


class _Rows:
    """The rows of one section while it is gathered."""

    __slots__ = ("diffs", "images", "renames", "txs")

    def __init__(self) -> None:
        self.images: list[Row] = []
        self.txs: list[int] = []
        self.diffs: list[int] = []
        self.renames: list[tuple[int, int, int]] = []


class _Layout:
    """What encoding needs to know of a table, computed once."""

    def __init__(self, table: Table) -> None:
        self.types = [column.type for column in table.columns]
        self.is_plain = PLAIN.issuperset(self.types)
        self.schema = pa.schema([*table.arrow, TX, DIFF])
        self.written = self.schema.serialize().to_pybytes()
        self.few = FewRows(self.schema)
        places = [table.index(name) for name in table.identity]
        self.identity: Callable[[Row], Row] = _picker(places)
        self.collations = [table.columns[place].collation for place in places]

    def hash(self, image: Row) -> int:
        return hash_row(self.identity(image), self.collations)


def _picker(places: list[int]) -> Callable[[Row], Row]:
    """The values at these places. `itemgetter` of one place would give no tuple, but that of a slice does."""
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))


_layout = functools.lru_cache(maxsize=4096)(_Layout)


def _encode_body(transactions: Sequence[Transaction], tables: Mapping[str, Table], partitions: int) -> _Body:
    body = _Body()
    for (name, partition), rows in _gather(transactions, tables, partitions).items():
        table = tables[name]
        layout = _layout(table)
        span = body.place(_rows_batch(rows, layout), layout.written)
        renames = body.place(_renames_batch(rows.renames), _RENAMES_WRITTEN) if rows.renames else None
        body.sections.append(_SectionHeader(name, partition, table.schema_id, span, renames))
    return body


def _encode_columns(transactions: Sequence[Transaction]) -> _Body:
    """Of columnar changes, without making rows. No key of it changes, so there are no renames."""
    body = _Body()
    for columns in columns_of(transactions):
        layout = _layout(columns.table)
        arrays = [*columns.images.columns, pa.array(columns.ordinals), pa.array(columns.diffs)]
        span = body.place(pa.RecordBatch.from_arrays(arrays, schema=layout.schema), layout.written)
        body.sections.append(_SectionHeader(columns.table.name, 0, columns.table.schema_id, span, None))
    return body


def _gather(
    transactions: Sequence[Transaction], tables: Mapping[str, Table], partitions: int
) -> dict[tuple[str, int], _Rows]:
    sections: dict[tuple[str, int], _Rows] = {}
    name: str | None = None  # of the change before
    for ordinal, transaction in enumerate(transactions):
        for change in transaction.changes:
            if change.table != name or partitions > 1:
                name = change.table
                layout = _layout(tables[name])
                key = (name, _partition(change, layout, partitions))
                rows = sections.get(key) or sections.setdefault(key, _Rows())
            _add(rows, change, ordinal, layout)
    return sections


def _partition(change: Change, layout: _Layout, partitions: int) -> int:
    """Old and new image stay together, where the old key is at home."""
    if partitions == 1:
        return 0
    image = change.old if change.old is not None else change.new
    assert image is not None
    return layout.hash(image) % partitions


def _add(rows: _Rows, change: Change, ordinal: int, layout: _Layout) -> None:
    old, new = change.old, change.new
    if old is None or new is None:
        rows.images.append(new if old is None else old)  # type: ignore[arg-type]
        rows.txs.append(ordinal)
        rows.diffs.append(1 if old is None else -1)
        return
    rows.images += old, new
    rows.txs += ordinal, ordinal
    rows.diffs += -1, 1
    if layout.identity(old) != layout.identity(new):
        was, now = layout.hash(old), layout.hash(new)
        if was != now:  # the values may differ where the collation sees none
            rows.renames.append((ordinal, was, now))


def _rows_batch(rows: _Rows, layout: _Layout) -> pa.RecordBatch:
    if len(rows.images) <= SMALL.frame_rows and layout.is_plain:
        images = zip(rows.images, rows.txs, rows.diffs, strict=True)
        return layout.few.of((*image, tx, diff) for image, tx, diff in images)
    columns = zip(*rows.images, strict=True)
    arrays = [to_array(column, type) for column, type in zip(columns, layout.types, strict=True)]
    arrays += [pa.array(rows.txs, pa.int64()), pa.array(rows.diffs, pa.int8())]
    return pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _renames_batch(renames: list[tuple[int, int, int]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*renames, strict=True), RENAMES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RENAMES)


def _padding(length: int) -> bytes:
    return bytes(-length % _ALIGN_BYTES)


# Decoding


def _open(payload: bytes) -> tuple[_FrameHeader, pa.Buffer]:
    try:
        magic, length = _PREFIX.unpack_from(payload)
        if magic != _MAGIC:
            raise _malformed(f"expected it to begin with {_MAGIC!r}, found {magic!r}")
        end = _PREFIX.size + length
        header = _decode_header(memoryview(payload)[_PREFIX.size : end])
    except (struct.error, msgspec.DecodeError) as error:
        raise _malformed(f"its header cannot be read: {error}") from error
    begin = min(end + len(_padding(end)), len(payload))
    return header, pa.py_buffer(payload).slice(begin)


def _decode_section(header: _SectionHeader, body: pa.Buffer, offset: int) -> Section:
    rows = _read_batch(header, header.rows, body)
    if rows.num_columns < 3 or [*rows.schema][-2:] != [TX, DIFF]:
        raise _malformed(f"its section for table {header.table} does not end in the columns tx and diff")
    renames = _read_batch(header, header.renames, body) if header.renames is not None else None
    if renames is not None and renames.schema != RENAMES:
        raise _malformed(f"its renames for table {header.table} have the columns {renames.schema.names}")
    return Section(
        header.table,
        header.partition,
        header.schema_id,
        _with_tx(rows, rows.num_columns - 2, offset),
        _with_tx(renames, 0, offset) if renames is not None else None,
    )


def _read_batch(header: _SectionHeader, span: tuple[int, int], body: pa.Buffer) -> pa.RecordBatch:
    begin, length = span
    if begin < 0 or length < 0 or begin + length > body.size:
        raise _malformed(
            f"its section for table {header.table} should fill bytes {begin} to {begin + length} of {body.size}"
        )
    raw = body.slice(begin, length)
    schema_bytes = _MESSAGE_PREFIX + int.from_bytes(raw[4:_MESSAGE_PREFIX], "little")
    try:
        schema = _schema(raw[:schema_bytes].to_pybytes())
        batch = pa.ipc.read_record_batch(raw[schema_bytes:], schema)
        batch.validate()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise _malformed(f"its section for table {header.table} is no Arrow stream: {error}") from error
    return batch


@functools.lru_cache(maxsize=4096)
def _schema(raw: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(raw))


def _with_tx(batch: pa.RecordBatch, place: int, offset: int) -> pa.RecordBatch:
    """Ordinals become txs."""
    if not offset:
        return batch
    txs = batch.column(place).to_numpy() + tx_of(offset, 0)
    return batch.set_column(place, batch.schema.field(place), pa.array(txs))


def _malformed(what: str) -> Corrupt:
    return Corrupt(
        f"malformed frame: {what}",
        hint="the log was written by another version, or damaged: start with a fresh data directory",
    )
