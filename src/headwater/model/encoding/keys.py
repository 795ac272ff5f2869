"""One encoding of values for identity, equality and order: bytes that memcmp in SQLite's order.

Equal bytes mean equal values: 1, 1.0 and the decimal 1.00 are one key, and so are -0.0 and 0.0, and NaN is one value
above all numbers. Booleans and moments are the whole numbers that Arrow holds for them, an interval is its measure.
The encodings of two different values are never prefixes of each other unless 0xff follows, which begins no value: so
rows are plain concatenations and DESC is every byte inverted. It never decodes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from headwater.model.encoding.tagged_bytes import pack_any
from headwater.model.encoding.xxh3 import hash_array
from headwater.model.size import SMALL
from headwater.model.time.epoch import days_of, moment_us_of, time_us_of
from headwater.model.time.interval import Interval
from headwater.model.value import COUNTED, Row, Type, Value, from_array
from headwater.model.verbatim import Verbatim

_NUMBER, _TEXT, _BLOB = b"\x02", b"\x03", b"\x04"
_NULL_FIRST, _NULL_LAST = b"\x01", b"\xfe"  # final bytes: below and above every tag, inverted ones too
_END = b"\x00\x00"
_INVERTED = bytes(255 - byte for byte in range(256))
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_NAN = _ALL  # above infinity in the ordered form
_REST = b"\xff"  # more of a number follows, that neither double nor residual tells
BEHIND = b"\x80"  # between a key and what is no value: rising or falling, the rest of a number is not mistaken for it
_PACKED, _BITS, _DOUBLE = struct.Struct(">QH"), struct.Struct(">Q"), struct.Struct(">d")
_EXACT_INT_MAX = 1 << 53  # a double holds every smaller one
_RESIDUAL_MAX = (1 << 16) - 1
_EXPONENT_BIAS = 1 << 31
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NUMBERS = np.dtype([("tag", "u1"), ("ordered", ">u8"), ("residual", ">u2")])
_STRINGS = frozenset({Type.TEXT, Type.BLOB})
_AS_TEXT = frozenset({Type.UUID, Type.JSON})
_CHUNK_ROWS = 1 << 14  # hashed at once: their encodings need not all be there together

Uint64s = npt.NDArray[np.uint64]


def encode_value(
    value: Value, *, collation: str = "BINARY", descending: bool = False, nulls_first: bool = True
) -> bytes:
    if value is None:
        return _NULL_FIRST if nulls_first else _NULL_LAST
    if isinstance(value, str):
        encoded = _TEXT + _collated(value.encode("utf-8", "surrogatepass"), collation) + _END
    elif isinstance(value, bytes):
        encoded = _BLOB + _escaped(value) + _END
    elif isinstance(value, int | float):
        encoded = _number(value)
    else:
        encoded = _ENCODERS[type(value)](value)
    return encoded.translate(_INVERTED) if descending else encoded


def encode_row(values: Sequence[Value], collations: Sequence[str]) -> bytes:
    return b"".join(
        [encode_value(value, collation=collation) for value, collation in zip(values, collations, strict=True)]
    )


def encode_columns(
    arrays: Sequence[pa.Array],
    types: Sequence[Type],
    collations: Sequence[str],
    descending: Sequence[bool] | None = None,
    nulls_first: Sequence[bool] | None = None,
) -> list[bytes]:
    """The encoded row of each place: what `encode_value` gives for its values, joined."""
    descending = descending or (False,) * len(arrays)
    nulls_first = nulls_first or (True,) * len(arrays)
    if len(arrays[0]) > SMALL.encoded_rows:
        whole: list[bytes] = encode_whole(arrays, types, collations, descending, nulls_first).to_pylist()
        return whole
    each = zip(arrays, types, collations, descending, nulls_first, strict=True)
    columns = [_values(*one) for one in each]
    return columns[0] if len(columns) == 1 else [b"".join(row) for row in zip(*columns, strict=True)]


def encode_whole(
    arrays: Sequence[pa.Array],
    types: Sequence[Type],
    collations: Sequence[str],
    descending: Sequence[bool],
    nulls_first: Sequence[bool],
) -> pa.Array:
    """The same in one array of large binary."""
    each = zip(arrays, types, collations, descending, nulls_first, strict=True)
    return _joined([_column(*one) for one in each])


def hash_encoded(encoded: bytes) -> int:
    return xxhash.xxh3_64_intdigest(encoded)


def hash_row(values: Row, collations: Sequence[str]) -> int:
    """The identity of a row: stable over processes, platforms and time."""
    return xxhash.xxh3_64_intdigest(encode_row(values, collations))


def hash_columns(arrays: Sequence[pa.Array], types: Sequence[Type], collations: Sequence[str]) -> Uint64s:
    """What `hash_row` gives for each place."""
    if len(arrays[0]) <= SMALL.hashed_rows:
        return hash_all(encode_columns(arrays, types, collations))
    starts = range(0, len(arrays[0]), _CHUNK_ROWS)
    chunks = ([array.slice(start, _CHUNK_ROWS) for array in arrays] for start in starts)
    return np.concatenate([hash_array(_encoded(chunk, types, collations)) for chunk in chunks])


def _encoded(arrays: Sequence[pa.Array], types: Sequence[Type], collations: Sequence[str]) -> pa.Array:
    pairs = zip(arrays, types, collations, strict=True)
    return _joined([_column(array, type, collation, False, True) for array, type, collation in pairs])


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, _scalar(b""))


def _scalar(raw: bytes) -> pa.Scalar:
    return pa.scalar(raw, pa.large_binary())


def hash_all(encoded: Sequence[bytes]) -> Uint64s:
    return np.fromiter(map(xxhash.xxh3_64_intdigest, encoded), dtype=np.uint64, count=len(encoded))


def hash_hex(hash: int) -> str:
    return f"{hash:016x}"


def _number(value: int | float) -> bytes:
    """The largest double at or below the value, in an order-preserving form, and how far the value is above it."""
    double = float(value) + 0.0
    residual = 0
    if isinstance(value, int) and not -_EXACT_INT_MAX < value < _EXACT_INT_MAX:
        if int(double) > value:
            double = math.nextafter(double, -math.inf)
        residual = value - int(double)
    return _NUMBER + _PACKED.pack(_ordered(double), residual)


def _ordered(double: float) -> int:
    if double != double:
        return _NAN
    bits: int = _BITS.unpack(_DOUBLE.pack(double))[0]
    return bits ^ _ALL if bits & _SIGN else bits | _SIGN


def _decimal(value: Decimal) -> bytes:
    """As a number; what neither its double nor its residual tells comes behind, by magnitude and digits."""
    if not value.is_finite():
        return _number(float(value))
    double = _floor(value)
    if math.isinf(double):
        return _NUMBER + struct.pack(">QH", _ordered(double), _RESIDUAL_MAX) + _more(-value).translate(_INVERTED)
    above = _EXACT.subtract(value, Decimal(double))
    residual = min(int(above), _RESIDUAL_MAX)
    rest = _EXACT.subtract(above, Decimal(residual))
    return _NUMBER + struct.pack(">QH", _ordered(double + 0.0), residual) + (_more(rest) if rest else b"")


def _floor(value: Decimal) -> float:
    """The largest finite double at or below, but for what is below all of them."""
    double = min(float(value), math.nextafter(math.inf, 0))
    return math.nextafter(double, -math.inf) if Decimal(double) > value else double


def _more(rest: Decimal) -> bytes:
    digits = "".join(map(str, rest.as_tuple().digits)).rstrip("0").encode()
    return _REST + struct.pack(">I", rest.adjusted() + _EXPONENT_BIAS) + digits + _END


def _verbatim(value: Verbatim) -> bytes:
    moment = _MOMENTS.get(value.type)
    return _number(moment(value)) if moment is not None else encode_value(value.text)


_MOMENTS: dict[str, Callable[[Any], int]] = {
    "date": days_of,
    "time": time_us_of,
    "timestamp": moment_us_of,
    "timestamptz": moment_us_of,
}
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Decimal: _decimal,
    date: lambda value: _number(days_of(value)),
    time: lambda value: _number(time_us_of(value)),
    datetime: lambda value: _number(moment_us_of(value)),
    Interval: lambda value: _decimal(Decimal(value.measure_us)),
    UUID: lambda value: encode_value(str(value)),
    Verbatim: _verbatim,
    tuple: lambda value: encode_value(pack_any(value)),
}


def _escaped(raw: bytes) -> bytes:
    return raw.replace(b"\x00", b"\x00\xff") if b"\x00" in raw else raw


def _collated(raw: bytes, collation: str) -> bytes:
    match collation:
        case "NOCASE":
            return _nocase(raw)
        case "RTRIM":
            return _escaped(raw.rstrip(b" "))
        case _:
            return _escaped(raw)


def _nocase(raw: bytes) -> bytes:
    """SQLite's NOCASE stops at the first NUL of both sides; from there on only the lengths count."""
    head, nul, _ = raw.partition(b"\x00")
    return head.lower() + (b"\x00\xff" + _escaped(struct.pack(">Q", len(raw))) if nul else b"")


def _values(array: pa.Array, type: Type, collation: str, descending: bool, nulls_first: bool) -> list[bytes]:
    return [
        encode_value(value, collation=collation, descending=descending, nulls_first=nulls_first)
        for value in from_array(array, type)
    ]


def _column(array: pa.Array, type: Type, collation: str, descending: bool, nulls_first: bool) -> pa.Array:
    """The encoded values as large binary, with no NULL among them."""
    if type in COUNTED:
        array, type = array.view(COUNTED[type]).cast(pa.int64()), Type.INTEGER
    elif type in _AS_TEXT:
        type, collation = Type.TEXT, "BINARY"
    if type is Type.INTEGER or type is Type.REAL:
        return _numbers(array, type, descending, nulls_first)
    if type in _STRINGS and not descending and not _irregular(array, type, collation):
        return _strings(array, type, collation, nulls_first)
    return pa.array(_values(array, type, collation, descending, nulls_first), pa.large_binary())


def _numbers(array: pa.Array, type: Type, descending: bool, nulls_first: bool) -> pa.Array:
    null = array.is_null()
    numbers = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    doubles, residuals = _floors(numbers) if type is Type.INTEGER else (numbers + 0.0, 0)
    bits = doubles.view(np.uint64)
    ordered = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(_SIGN))
    if type is Type.REAL:
        ordered = np.where(np.isnan(doubles), np.uint64(_NAN), ordered)
    table = np.empty(len(array), _NUMBERS)
    table["tag"], table["ordered"], table["residual"] = _NUMBER[0], ordered, residuals
    raw = ~table.view(np.uint8) if descending else table
    ends = np.arange(0, (len(array) + 1) * _NUMBERS.itemsize, _NUMBERS.itemsize)
    encoded = pa.Array.from_buffers(pa.large_binary(), len(array), [None, pa.py_buffer(ends), pa.py_buffer(raw)])
    return pc.if_else(null, _null(nulls_first), encoded) if null.true_count else encoded


def _null(first: bool) -> pa.Scalar:
    return _scalar(_NULL_FIRST if first else _NULL_LAST)


def _floors(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    doubles = np.minimum(numbers.astype(np.float64), np.nextafter(2.0**63, 0))
    above = doubles.astype(np.int64) > numbers
    doubles[above] = np.nextafter(doubles[above], -np.inf)
    return doubles, numbers - doubles.astype(np.int64)


def _irregular(array: pa.Array, type: Type, collation: str) -> bool:
    """Whether a byte of some value needs escaping, or the collation has no kernel."""
    if collation == "RTRIM" and type is Type.TEXT:
        return True
    raw = array.cast(pa.large_binary()) if type is Type.TEXT else array
    return bool(pc.any(pc.match_substring(raw, b"\x00")).as_py())


def _strings(array: pa.Array, type: Type, collation: str, nulls_first: bool) -> pa.Array:
    text = pc.ascii_lower(array) if type is Type.TEXT and collation == "NOCASE" else array
    tag = _scalar(_TEXT if type is Type.TEXT else _BLOB)
    joined = pc.binary_join_element_wise(tag, text.cast(pa.large_binary()), _scalar(_END), _scalar(b""))
    return joined.fill_null(_null(nulls_first)) if joined.null_count else joined
