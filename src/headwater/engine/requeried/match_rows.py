"""Which row of an answer is which row of the one before, by the keys of the tables that the row was joined from.

A row stays the same while its keys do. Where a table renamed a key, the row is found under its new key. A row whose
partner in a join appeared, left or changed is found by the keys that are never NULL. It never compares other values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from headwater.model.value import Row, pack_any

Identity = bytes
Renamed = Sequence[tuple[tuple[int, ...], Mapping[bytes, bytes]]]  # places of a key, and packed keys: old to new
Partners = tuple[Identity | None, Identity | None]
_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode


def packed(values: Row) -> bytes:
    """Equal where nobody could tell the values apart."""
    return _encode([pack_any(value) for value in values])


def partners(
    old: Collection[Identity], new: Collection[Identity], renamed: Renamed, anchored: int
) -> Iterator[Partners]:
    """Each of them once. The first `anchored` of its keys are never missing in a row."""
    known = {identity: _known(identity, renamed) for identity in old} if renamed else dict(zip(old, old, strict=True))
    came, left = dict.fromkeys(new), dict.fromkeys(old)
    moved = [(was, now) for was, now in known.items() if was != now]
    for was, now in (*moved, *zip(old, old, strict=True)):
        if was in left and now in came:
            del left[was], came[now]
            yield was, now
    yield from _transitions({identity: known[identity] for identity in left}, came, anchored)


def _known(identity: Identity, renamed: Renamed) -> Identity:
    """By the keys that its tables have now."""
    values = _decode(identity)
    for places, keys in renamed:
        now = keys.get(_encode([values[place] for place in places]))
        if now is not None:
            for place, value in zip(places, _decode(now), strict=True):
                values[place] = value
    return _encode(values)


def _transitions(left: Mapping[Identity, Identity], came: Iterable[Identity], anchored: int) -> Iterator[Partners]:
    """In the order of the keys that may be missing."""
    by_anchor = defaultdict[bytes, tuple[list[Identity], list[Identity]]](lambda: ([], []))
    for was, now in sorted(left.items(), key=lambda one: one[1]):
        by_anchor[_anchor(now, anchored)][0].append(was)
    for now in sorted(came):
        by_anchor[_anchor(now, anchored)][1].append(now)
    for gone, found in by_anchor.values():
        length = max(len(gone), len(found))
        yield from zip(_padded(gone, length), _padded(found, length), strict=True)


def _anchor(identity: Identity, anchored: int) -> bytes:
    return _encode(_decode(identity)[:anchored]) if anchored else identity


def _padded(identities: list[Identity], length: int) -> list[Identity | None]:
    return [*identities, *[None] * (length - len(identities))]
