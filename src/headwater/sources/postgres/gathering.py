"""One batch of rows that come from several: each row is moved once, from where it stands to where it shall be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows at some places of a batch; None: all of them."""

    rows: pa.RecordBatch
    at: Ints | None

    def column(self, n: int) -> pa.Array:
        return self.rows.column(n) if self.at is None else self.rows.column(n).take(pa.array(self.at))

    def words(self, n: int) -> Ints:
        """The values of a column of whole words, as numbers."""
        column = self.rows.column(n)
        words = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
        return words if self.at is None else words[self.at]


def gathered(pieces: Sequence[Piece], into: Sequence[Ints], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of each piece stand where `into` says, which leaves no place out."""
    some = [(piece, places) for piece, places in zip(pieces, into, strict=True) if len(places)]
    count = sum(len(places) for _, places in some)
    whence = np.empty(count, np.int64)
    if some:
        whence[np.concatenate([places for _, places in some])] = np.arange(count)
    columns = [_column(some, n, field.type, whence) for n, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(some: Sequence[tuple[Piece, Ints]], n: int, type: pa.DataType, whence: Ints) -> pa.Array:
    if pa.types.is_primitive(type) and type.bit_width == _WORD_BITS and not any(_lacks(one, n) for one, _ in some):
        words = np.empty(len(whence), np.int64)
        for piece, places in some:
            words[places] = piece.words(n)
        return pa.Array.from_buffers(type, len(words), [None, pa.py_buffer(words)])
    parts = [piece.column(n) for piece, _ in some]
    return pa.concat_arrays(parts).take(pa.array(whence)) if parts else pa.array([], type)


def _lacks(piece: Piece, n: int) -> bool:
    return bool(piece.rows.column(n).null_count)
