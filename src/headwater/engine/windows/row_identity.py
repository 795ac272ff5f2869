"""The identity of a row: the hash of its key; without a key, the hash of its values and an ordinal among equal rows.

The hash of a row without a key leaves out trailing columns that hold their default, so that it stays the same when a
column is added.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import xxhash

from headwater.engine.rows.arrays import Bools, Int8s, Int64s
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.work import Work
from headwater.engine.state.tally import Tally
from headwater.model.encoding.keys import Uint64s, encode_columns, hash_all, hash_columns
from headwater.model.schema import Table
from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value, from_array, pack_any, to_array

_PRESENT = np.uint64(1)
_LOOSE = frozenset({Type.REAL, Type.ANY, Type.NUMERIC, Type.INTERVAL})


def key_hashes(table: Table, rows: pa.RecordBatch) -> Uint64s:
    """Identities in a table with a key. 0 is kept free: it means absent."""
    return _key_hashes(TableSchema.of(table), rows)


def _key_hashes(shape: TableSchema, rows: pa.RecordBatch) -> Uint64s:
    hashes = hash_columns(shape.key_of(rows), shape.key_types, shape.key_collations)
    return np.maximum(hashes, _PRESENT, out=hashes)


@dataclass(frozen=True, slots=True)
class RowHashes:
    """`plain` sees values as their collations do: so renames name rows. `exact` tells 1 from 1.0 and 'a' from 'A'."""

    plain: Uint64s
    exact: Uint64s


def row_hashes(table: Table, rows: pa.RecordBatch) -> RowHashes:
    plain = hash_columns(rows.columns, [c.type for c in table.columns], [c.collation for c in table.columns])
    exact = [_exact(rows.column(n), column.type) for n, column in enumerate(table.columns)]
    defaults = [_exact(to_array([column.default], column.type), column.type)[0] for column in table.columns]
    short = [b"".join(_stripped(row, defaults)) for row in zip(*exact, strict=True)]
    return RowHashes(plain, hash_all(short))


def _exact(array: pa.Array, type: Type) -> list[bytes]:
    """The same bytes whether the column is of its values' type or ANY."""
    encoded = encode_columns([array], [type], ["BINARY"])
    if type not in _LOOSE:
        return encoded
    return [each + _mark(value) for each, value in zip(encoded, from_array(array, type), strict=True)]


def _mark(value: Value) -> bytes:
    """What equality does not see: a point, a minus before zero, the scale of a decimal, days in place of months."""
    if isinstance(value, Decimal | Interval):
        return pack_any(value) or b""
    if not isinstance(value, float):
        return b""
    return b"z" if value == 0 and math.copysign(1, value) < 0 else b"r"


def _stripped(row: Sequence[bytes], defaults: Sequence[bytes]) -> Sequence[bytes]:
    end = len(row)
    while end and row[end - 1] == defaults[end - 1]:
        end -= 1
    return row[:end]


def ordinal_hash(row_hash: int, ordinal: int) -> int:
    return max(xxhash.xxh3_64_intdigest(struct.pack(">QQ", row_hash, ordinal)), 1)


@dataclass(slots=True)
class Multiset:
    """How often each row of a key-less table is there. Equals have the ordinals 0 … n−1; the highest leaves first."""

    tally: Tally = field(default_factory=lambda: Tally(1, Work()))

    @contextmanager
    def counting(self, row_hashes: Uint64s) -> Iterator[Counts]:
        """The counts of these rows, to be changed; they are put back at the end."""
        keys = np.unique(row_hashes)
        before = self.tally.get(keys)[:, 0]
        counts = Counts(dict(zip(keys.tolist(), before.tolist(), strict=True)))
        yield counts
        after = np.fromiter(counts.now.values(), np.int64, len(keys))
        self.tally.add(keys, (after - before).reshape(-1, 1))

    def follow(self, row_hashes: Uint64s, live: Bools) -> Uint64s:
        """Rows that come and go, one after the other."""
        pairs = zip(row_hashes.tolist(), live.tolist(), strict=True)
        with self.counting(row_hashes) as counts:
            return np.array([counts.enter(each) if comes else counts.leave(each) for each, comes in pairs], np.uint64)

    def recount(self, row_hashes: Uint64s) -> None:
        """All rows of an arrangement; another may have counted some of them already."""
        keys, times = np.unique(row_hashes, return_counts=True)
        more = np.maximum(times - self.tally.get(keys)[:, 0], 0)
        self.tally.add(keys, more.reshape(-1, 1))


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the rows of a step, how often each is there now."""

    now: dict[int, int]

    def enter(self, row_hash: int) -> int:
        ordinal = self.now[row_hash]
        self.now[row_hash] = ordinal + 1
        return ordinal_hash(row_hash, ordinal)

    def leave(self, row_hash: int) -> int:
        """A row nobody has seen (it is outside this cell's partition) leaves as ordinal 0."""
        ordinal = max(self.now[row_hash] - 1, 0)
        self.now[row_hash] = ordinal
        return ordinal_hash(row_hash, ordinal)


@dataclass(frozen=True, slots=True)
class Identified:
    """Rows of a step that count: `place` in the batch, identity, and the hash by which renames know them."""

    place: Int64s
    id: Uint64s
    name: Uint64s
    sign: Int8s


def identify_keyed(shape: TableSchema, rows: pa.RecordBatch, diff: Int8s) -> Identified:
    id = _key_hashes(shape, rows)
    return Identified(np.arange(rows.num_rows), id, id, diff)


def identify_multiset(table: Table, rows: pa.RecordBatch, tx: Int64s, diff: Int8s, multiset: Multiset) -> Identified:
    """Per transaction the net of each row, spread over ordinals; what cancels is left out."""
    hashes = row_hashes(table, rows)
    exact, plain = hashes.exact.tolist(), hashes.plain.tolist()
    net: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for place, (at, each, change) in enumerate(zip(tx.tolist(), exact, diff.tolist(), strict=True)):
        entry = net[at, each]
        entry[0] += change
        entry[1] = place
    out: list[tuple[int, int, int, int]] = []
    with multiset.counting(hashes.exact) as counts:
        for (_, each), (change, place) in net.items():
            take = counts.enter if change > 0 else counts.leave
            sign = 1 if change > 0 else -1
            out.extend((place, take(each), plain[place], sign) for _ in range(abs(change)))
    places, ids, names, signs = zip(*out, strict=True) if out else ((), (), (), ())
    return Identified(
        np.array(places, np.int64), np.array(ids, np.uint64), np.array(names, np.uint64), np.array(signs, np.int8)
    )
