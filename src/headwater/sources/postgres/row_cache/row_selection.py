"""Rows picked from batches, and one batch of rows that come from several: each row is moved once, from where it stands
to where it shall be. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows at some places of a batch; None: all of them."""

    rows: pa.RecordBatch
    at: Ints | None

    def column(self, n: int) -> pa.Array:
        return self.rows.column(n) if self.at is None else picked(self.rows.column(n), self.at)

    def words(self, n: int) -> Ints:
        words = _words(self.rows.column(n))
        return words if self.at is None else words[self.at]


def picked(column: pa.Array, at: Ints) -> pa.Array:
    """What Arrow's `take` gives, which is slower where words are moved."""
    if not (len(column) and _has_words(column)):
        return column.take(pa.array(at))
    return pa.Array.from_buffers(column.type, len(at), [None, pa.py_buffer(_words(column)[at])])


def _has_words(column: pa.Array) -> bool:
    """Whether it is nothing but values of eight bytes each."""
    type = column.type
    return pa.types.is_primitive(type) and type.bit_width == _WORD_BITS and not column.null_count


def _words(column: pa.Array) -> Ints:
    return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)


def gathered(pieces: Sequence[RowSelection], into: Sequence[Ints], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of each piece stand where `into` says, which leaves no place out."""
    some = [(piece, places) for piece, places in zip(pieces, into, strict=True) if len(places)]
    count = sum(len(places) for _, places in some)
    whence = np.empty(count, np.int64)
    if some:
        whence[np.concatenate([places for _, places in some])] = np.arange(count)
    columns = [_column(some, n, field.type, whence) for n, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(some: Sequence[tuple[RowSelection, Ints]], n: int, type: pa.DataType, whence: Ints) -> pa.Array:
    if some and all(_has_words(piece.rows.column(n)) for piece, _ in some):
        words = np.empty(len(whence), np.int64)
        for piece, places in some:
            words[places] = piece.words(n)
        return pa.Array.from_buffers(type, len(words), [None, pa.py_buffer(words)])
    parts = [piece.column(n) for piece, _ in some]
    return pa.concat_arrays(parts).take(pa.array(whence)) if parts else pa.array([], type)
