"""Index: the emissions of a step in columns: instance, kind, transaction, and the emission it follows.

A step may emit to a hundred thousand windows: their entries are numbers in arrays, and become an `Entry` only where
they are read one by one. It never holds a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple, get_args, overload

import msgspec
import numpy as np

from headwater.engine.rows.arrays import Int64s

Kind = Literal["result", "diff", "error", "closed", "lost"]
Ending = Literal["closed", "lost"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
_CODES: dict[str, int] = {kind: code for code, kind in enumerate(_KINDS)}


class Entry(NamedTuple):
    """One emission. `prev` is the `tx` of the emission before in this instance's chain, 0 for the first.

    A `result` asked for by `snapshot` repeats the tx and prev of the last emission: it does not advance the chain.
    An `error` does; while a window is in error it emits nothing, and the `result` that ends it follows in the chain.
    `closed` and `lost` end the chain: the latter because changes are missing, so that the window may begin anew.
    """

    instance: int
    tx: int
    prev: int
    kind: Kind
    template: str
    reason: str = ""


_MOMENT = attrgetter("tx", "instance")


@dataclass(frozen=True, slots=True, eq=False)
class Index(Sequence[Entry]):
    """`columns`: instance, tx, prev, the place of the kind in `_KINDS`, and of the template in `templates`, of which
    there are no others and which are sorted. `reasons` are by place."""

    columns: Int64s
    templates: tuple[str, ...]
    reasons: Mapping[int, str]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Index:
        if not entries:
            return NOTHING
        instance, tx, prev, kinds, names, reasons = zip(*entries, strict=True)
        codes = _numbered(names)
        kind, template = [_CODES[each] for each in kinds], [codes[each] for each in names]
        columns = np.array((instance, tx, prev, kind, template), np.int64)
        return cls(columns, tuple(codes), {place: why for place, why in enumerate(reasons) if why})

    @classmethod
    def diffs(cls, template: str, instance: Int64s, tx: Int64s, prev: Int64s) -> Index:
        """Diffs of one template."""
        kind = np.full(len(tx), _CODES["diff"])
        return cls(np.stack((instance, tx, prev, kind, np.zeros_like(kind))), (template,), {})

    @classmethod
    def together(cls, parts: Sequence[Index], entries: Sequence[Entry] = ()) -> Index:
        """The parts and then the entries, by tx, then instance; of equals the first stays first."""
        if not parts:
            return cls.of(sorted(entries, key=_MOMENT))
        parts = [part for part in (*parts, cls.of(entries)) if len(part)]
        if not parts:
            return NOTHING
        return _by_time(parts[0] if len(parts) == 1 else _joined(parts))

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def __iter__(self) -> Iterator[Entry]:
        for place, (instance, tx, prev, kind, template) in enumerate(self.columns.T.tolist()):
            yield Entry(instance, tx, prev, _KINDS[kind], self.templates[template], self.reasons.get(place, ""))

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return list(self)[place]

    def moments(self) -> Iterator[tuple[int, int]]:
        """The tx and the instance of each."""
        instance, tx = self.columns[:2].tolist()
        return zip(tx, instance, strict=True)


NOTHING = Index(np.zeros((5, 0), np.int64), (), {})


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(sorted(set(names)))}


def _joined(parts: Sequence[Index]) -> Index:
    """One index after the other."""
    codes = _numbered(name for part in parts for name in part.templates)
    columns = np.concatenate([part.columns for part in parts], axis=1)
    columns[4] = np.concatenate([np.array([codes[name] for name in part.templates])[part.columns[4]] for part in parts])
    start, reasons = 0, dict[int, str]()
    for part in parts:
        reasons.update({start + place: why for place, why in part.reasons.items()})
        start += len(part)
    return Index(columns, tuple(codes), reasons)


def _by_time(index: Index) -> Index:
    if len(index) == 1:
        return index
    order = np.lexsort(index.columns[:2])  # stable: by tx, then instance
    whys = index.reasons
    reasons = {place: whys[was] for place, was in enumerate(order.tolist()) if was in whys} if whys else {}
    return Index(index.columns[:, order], index.templates, reasons)


class PackedIndex(msgspec.Struct, array_like=True):
    """An index on its way: the columns one after the other, little-endian."""

    columns: bytes
    templates: tuple[str, ...]
    reasons: dict[int, str]


def pack(index: Index) -> PackedIndex:
    return PackedIndex(index.columns.astype("<i8").tobytes(), index.templates, dict(index.reasons))


def unpack(packed: PackedIndex) -> Index:
    """ValueError where it does not read."""
    columns = np.frombuffer(packed.columns, "<i8").astype(np.int64).reshape(5, -1)
    for codes, names in ((columns[3], _KINDS), (columns[4], packed.templates)):
        if len(codes) and not (codes.min() >= 0 and codes.max() < len(names)):
            raise ValueError("an index tells of a kind or a template that there is not")
    return Index(columns, packed.templates, packed.reasons)
