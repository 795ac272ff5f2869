"""PackedSortKeys: sort keys of one length in one array, which numpy sorts.

As a Python object each would take a hundred bytes and half a microsecond; here it takes its own length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.encoding.keys import BEHIND

Keys = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class PackedSortKeys(Sequence[bytes]):
    keys: Keys

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> PackedSortKeys: ...
    def __getitem__(self, place: int | slice) -> bytes | PackedSortKeys:
        return PackedSortKeys(self.keys[place]) if isinstance(place, slice) else self.keys[place].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys.tolist())

    def in_order(self, places: npt.NDArray[Any]) -> Keys:
        """Those at these places, sorted: as strings of bytes, which end in zeros or not, but all at the same place."""
        chosen: Keys = self.keys[places]
        if not len(chosen):
            return chosen
        ordered: Keys = np.sort(chosen.view(f"S{chosen.itemsize}")).view(chosen.dtype)
        return ordered


def packed(encoded: pa.Array, ends: npt.NDArray[np.uint64]) -> PackedSortKeys | None:
    """Encoded values, each with its identity behind. None where they are not all of one length."""
    _, offsets, data = encoded.buffers()
    starts = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
    widths = np.diff(starts)
    if not len(widths) or not (widths == widths[0]).all():
        return None
    values = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]].reshape(len(encoded), -1)
    between = np.full((len(encoded), 1), BEHIND[0], np.uint8)
    both = np.concatenate((values, between, ends.astype(">u8").view(np.uint8).reshape(len(encoded), 8)), axis=1)
    return PackedSortKeys(both.view(f"V{both.shape[1]}").ravel())
