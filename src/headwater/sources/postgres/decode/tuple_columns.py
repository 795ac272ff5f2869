"""The values of many rows of one table, column by column: all rows are walked in lockstep, and what they hold becomes
Arrow's. Types that Arrow does not read from text are parsed value by value. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.errors import SourceError
from headwater.model.value import Type, to_array
from headwater.sources.postgres.server.value_types import Parse
from headwater.sources.postgres.wire.simple_transactions import Ints, SimpleTransactions

_TEXT, _NULL, _UNCHANGED = ord("t"), ord("n"), ord("u")
Bools = npt.NDArray[np.bool_]
_Places = tuple[Ints, Ints, Bools]  # where each value begins and ends, and whether there is none


@dataclass(frozen=True, slots=True)
class TupleColumns:
    """The values of some rows by column, where they stand; `ends` is where the rows end, and `unchanged` says which of
    them lack a large value that an update did not touch."""

    simple: SimpleTransactions
    places: list[_Places]
    ends: Ints
    unchanged: Bools

    def column(self, n: int, type: Type, parse: Parse) -> pa.Array:
        starts, ends, is_null = self.places[n]
        return read(_texts(self.simple.buffer, starts, ends, is_null), type, parse)


def cells_at(simple: SimpleTransactions, at: Ints, width: int) -> TupleColumns:
    """The rows that begin at these places, with the number of their columns."""
    if len(at) and (simple.number(at, ">u2") != width).any():
        raise _malformed(f"the number of columns is not {width}")
    unchanged = np.zeros(len(at), np.bool_)
    at = at + 2
    places: list[_Places] = []
    try:
        for _ in range(width):
            kinds = simple.data[at]
            is_text = kinds == _TEXT
            starts = at + 5
            if is_text.all():
                ends = at = starts + simple.number(at + 1, ">u4")
                places.append((starts, ends, ~is_text))
            else:
                _refuse_others(kinds, is_text)
                unchanged |= kinds == _UNCHANGED
                starts = np.where(is_text, starts, at + 1)
                at = starts + np.where(is_text, simple.number(starts - 4, ">u4"), 0)
                places.append((starts, at, ~is_text))
    except IndexError:
        raise _malformed("a row extends past its message") from None
    return TupleColumns(simple, places, at, unchanged)


def refuse_behind(ends: Ints, limits: Ints) -> None:
    if (ends > limits).any():
        raise _malformed("a row extends past its message")


def _refuse_others(kinds: npt.NDArray[np.uint8], is_text: Bools) -> None:
    if not (is_text | (kinds == _NULL) | (kinds == _UNCHANGED)).all():
        raise _malformed("a value that is neither text nor NULL")


def _malformed(found: str) -> SourceError:
    return SourceError(
        f"malformed rows in a logical replication message: {found}",
        hint="check whether a proxy between Headwater and PostgreSQL alters the stream",
    )


def _texts(buffer: bytes, starts: Ints, ends: Ints, is_null: Bools) -> pa.Array:
    """Every second of the pieces that starts and ends cut the buffer into."""
    count = len(starts)
    if not count:
        return pa.array([], pa.large_binary())
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2], offsets[1::2] = starts, ends
    pieces = pa.Array.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    return pieces.take(pa.array(np.arange(0, 2 * count, 2), mask=is_null if is_null.any() else None))


def read(texts: pa.Array, type: Type, parse: Parse) -> pa.Array:
    """The values that these texts, as large binary, stand for."""
    known = _READERS.get(type)
    if known is not None:
        try:
            return known(texts)
        except pa.ArrowInvalid:  # infinity and other moments that Arrow does not read
            pass
    return to_array([None if text is None else parse(text) for text in texts.to_pylist()], type)


def _as_text(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.large_string())


def _cast(type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda texts: _as_text(texts).cast(type)


def _times(texts: pa.Array) -> pa.Array:
    """Arrow reads no time of day, but one of the first day."""
    first, nothing = pa.scalar("1970-01-01 ", pa.large_string()), pa.scalar("", pa.large_string())
    moments = pc.binary_join_element_wise(first, _as_text(texts), nothing)
    return moments.cast(pa.timestamp("us")).view(pa.int64()).view(Type.TIME.arrow)


_READERS: dict[Type, Callable[[pa.Array], pa.Array]] = {
    Type.TIME: _times,
    Type.BOOLEAN: lambda texts: pc.equal(texts, pa.scalar(b"t", pa.large_binary())),
    **dict.fromkeys((Type.TEXT, Type.NUMERIC, Type.UUID, Type.JSON), _as_text),
    **{type: _cast(type.arrow) for type in (Type.INTEGER, Type.REAL, Type.DATE, Type.TIMESTAMP, Type.TIMESTAMPTZ)},
}


def batch_of(
    cells: TupleColumns, columns: Sequence[tuple[Type, Parse]], schema: pa.Schema, only: Sequence[int] | None = None
) -> pa.RecordBatch:
    """All columns, or only some of them and NULL elsewhere."""
    count = len(cells.ends)
    arrays = [
        cells.column(n, type, parse) if only is None or n in only else pa.nulls(count, type.arrow)
        for n, (type, parse) in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
