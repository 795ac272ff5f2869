"""XXH3 of whole columns: the 64-bit hash of each value of a binary array, as the library gives it for one.

Values of 1 to 128 bytes are read in lanes of eight bytes across all rows at once, which spares a Python object for
each; the few others are left to the library. It never decides what is hashed: that is `keys.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

Uint64s = npt.NDArray[np.uint64]

_SECRET = bytes.fromhex(  # the algorithm's own, as far as it is needed here
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
)
_BYTES_MAX = 128
_ROWS = 1 << 14  # at once: what is being worked on stays in the processor's cache
_LOW = np.uint64(0xFFFFFFFF)
_PRIMES = tuple(np.uint64(each) for each in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_MIX, _MIX_SHORT = np.uint64(0x165667919E3779F9), np.uint64(0x9FB21C651E98DF25)


def hash_array(array: pa.Array) -> Uint64s:
    """`array` is large binary or large string, without NULLs."""
    parts = [_hashed(array.slice(start, _ROWS)) for start in range(0, len(array), _ROWS)]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _hashed(array: pa.Array) -> Uint64s:
    count, first = len(array), array.offset
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[first : first + count + 1]
    values = _Values.of(data, bounds)
    out = np.empty(count, np.uint64)
    for low, high, many in _LENGTHS:
        at = np.flatnonzero((values.size >= low) & (values.size <= high))
        if len(at):
            out[at] = many(values if len(at) == count else values.take(at))
    others = np.flatnonzero((values.size == 0) | (values.size > _BYTES_MAX)).tolist()
    out[others] = [xxhash.xxh3_64_intdigest(array[n].as_buffer()) for n in others]
    return out


class _Values:
    """Where each value begins in `raw`, and how long it is: `even` for all of them, where that is so.

    Eight bytes more than there are may be read."""

    __slots__ = ("begin", "even", "raw", "size", "words")

    def __init__(self, raw: npt.NDArray[np.uint8], begin: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> None:
        self.raw, self.begin, self.size = raw, begin, size
        self.words: Uint64s = raw.view("<u8")
        together = len(size) * int(size[0]) if len(size) else 0
        self.even = int(size[0]) if together and together == begin[-1] + size[-1] and (size == size[0]).all() else None

    @classmethod
    def of(cls, data: pa.Buffer | None, bounds: npt.NDArray[np.int64]) -> _Values:
        total = int(bounds[-1] - bounds[0])
        raw = np.zeros((total // 8 + 2) * 8, np.uint8)
        if data is not None:
            raw[:total] = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
        return cls(raw, bounds[:-1] - bounds[0], np.diff(bounds))

    def take(self, at: npt.NDArray[np.intp]) -> _Values:
        return _Values(self.raw, self.begin[at], self.size[at])

    def lane(self, at: int) -> Uint64s:
        """Eight bytes of each value from a place on; negative ones count from its end."""
        if self.even is not None:
            start = at if at >= 0 else self.even + at
            return np.ndarray(len(self.size), "<u8", self.raw, start, (self.even,)).copy()
        return self.words_at(self.begin + (at if at >= 0 else self.size + at))

    def words_at(self, place: npt.NDArray[np.int64]) -> Uint64s:
        word, shift = place >> 3, ((place & 7) << 3).astype(np.uint64)
        low, high = self.words[word], self.words[word + 1]
        found: Uint64s = (low >> shift) | (high << (np.uint64(64) - shift))  # by 64 shifts everything out
        return found

    def half(self, at: int) -> Uint64s:
        return self.lane(at) & _LOW


def _secret(at: int) -> np.uint64:
    return np.uint64(int.from_bytes(_SECRET[at : at + 8], "little"))


def _of_1_to_3(values: _Values) -> Uint64s:
    begin, size = values.begin, values.size
    first, middle, last = (values.words_at(begin + at) & np.uint64(255) for at in (0, size >> 1, size - 1))
    bits = (first << np.uint64(16)) | (middle << np.uint64(24)) | last | (size.astype(np.uint64) << np.uint64(8))
    bits ^= (_secret(0) & _LOW) ^ (_secret(4) & _LOW)
    bits = _shifted(bits, 33) * _PRIMES[1]
    bits = _shifted(bits, 29) * _PRIMES[2]
    return _shifted(bits, 32)


def _of_4_to_8(values: _Values) -> Uint64s:
    bits = (values.half(-4) + (values.half(0) << np.uint64(32))) ^ (_secret(8) ^ _secret(16))
    bits = (bits ^ _rotated(bits, 49) ^ _rotated(bits, 24)) * _MIX_SHORT
    bits = (bits ^ ((bits >> np.uint64(35)) + values.size.astype(np.uint64))) * _MIX_SHORT
    return _shifted(bits, 28)


def _of_9_to_16(values: _Values) -> Uint64s:
    low = values.lane(0) ^ (_secret(24) ^ _secret(32))
    high = values.lane(-8) ^ (_secret(40) ^ _secret(48))
    return _finished(values.size.astype(np.uint64) + low.byteswap() + high + _folded(low, high))


def _of_17_to_128(values: _Values) -> Uint64s:
    """From both ends towards the middle, sixteen bytes at a time, as far as each value reaches."""
    sums = values.size.astype(np.uint64) * _PRIMES[0]
    for n in range(4):
        far = np.flatnonzero(values.size > 32 * n)
        if not len(far):
            break
        some = values if len(far) == len(sums) else values.take(far)
        sums[far] += _mixed(some, 16 * n, 32 * n) + _mixed(some, -16 * (n + 1), 32 * n + 16)
    return _finished(sums)


_LENGTHS: tuple[tuple[int, int, Callable[[_Values], Uint64s]], ...] = (
    (1, 3, _of_1_to_3),
    (4, 8, _of_4_to_8),
    (9, 16, _of_9_to_16),
    (17, _BYTES_MAX, _of_17_to_128),
)


def _mixed(values: _Values, at: int, secret: int) -> Uint64s:
    return _folded(values.lane(at) ^ _secret(secret), values.lane(at + 8) ^ _secret(secret + 8))


def _folded(a: Uint64s, b: Uint64s) -> Uint64s:
    """The upper half of the 128-bit product, xor the lower."""
    half = np.uint64(32)
    a_low, a_high, b_low, b_high = a & _LOW, a >> half, b & _LOW, b >> half
    crossed = a_high * b_low
    middle = ((a_low * b_low) >> half) + (crossed & _LOW) + a_low * b_high
    upper: Uint64s = (crossed >> half) + (middle >> half) + a_high * b_high
    return upper ^ (a * b)


def _finished(bits: Uint64s) -> Uint64s:
    return _shifted(_shifted(bits, 37) * _MIX, 32)


def _shifted(bits: Uint64s, by: int) -> Uint64s:
    return bits ^ (bits >> np.uint64(by))


def _rotated(bits: Uint64s, by: int) -> Uint64s:
    return (bits << np.uint64(by)) | (bits >> np.uint64(64 - by))
