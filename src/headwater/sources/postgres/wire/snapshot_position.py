"""Where in the stream a snapshot stands. Pure.

A transaction may be in the log before snapshots see it, and one that comes later in the log may be seen earlier. So a
snapshot has a position only if what it sees is a prefix of the stream; if not, another one is to be taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

RECENT_MAX = 1 << 17  # transactions remembered; a snapshot that is older than that has no position
_XIDS = 1 << 32


@dataclass(frozen=True, slots=True)
class PgSnapshot:
    """A snapshot: transactions from `xmax` on and those in `running` are not in it. `upto` is behind all that are."""

    xmax: int
    running: frozenset[int]
    upto: int

    @classmethod
    def parse(cls, snapshot: str, upto: int) -> PgSnapshot:
        """From PostgreSQL's `xmin:xmax:xip,xip,…`."""
        _, xmax, running = snapshot.split(":")
        return cls(int(xmax), frozenset(int(xid) for xid in running.split(",") if xid), upto)

    def sees(self, xid: int) -> bool:
        """`xid` as the stream has it: without its epoch."""
        full = self.xmax - self.xmax % _XIDS + xid
        if full > self.xmax + _XIDS // 2:
            full -= _XIDS
        elif full < self.xmax - _XIDS // 2:
            full += _XIDS
        return full < self.xmax and full not in self.running


class RecentTransactions:
    """The last transactions of the stream, in commit order."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, int]] = deque(maxlen=RECENT_MAX)

    def add(self, position: int, xid: int) -> None:
        if not self._known or position > self._known[-1][0]:
            self._known.append((position, xid))

    def extend(self, positions: Sequence[int], xids: Sequence[int]) -> None:
        """Several that follow one another."""
        last = self._known[-1][0] if self._known else -1
        self._known.extend(one for one in zip(positions, xids, strict=True) if one[0] > last)

    def seen_through(self, seen: PgSnapshot) -> int:
        """Up to here the snapshot sees every transaction, of those that the stream has told by now."""
        return min((position - 1 for position, xid in self._known if not seen.sees(xid)), default=seen.upto)

    def place(self, seen: PgSnapshot, floor: int) -> int | None:
        """The last position that the snapshot is right for, once the stream is past `seen.upto`.

        None where what it sees is no prefix, or does not hold all up to `floor`.
        """
        among = [(position, seen.sees(xid)) for position, xid in self._known if position <= seen.upto]
        hidden = [position for position, is_seen in among if not is_seen]
        if not hidden:
            return seen.upto if seen.upto >= floor else None
        first = hidden[0]
        if first <= floor or any(is_seen for position, is_seen in among if position > first):
            return None
        return first - 1
