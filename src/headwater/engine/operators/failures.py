"""Failures: rows that the origin would raise an error for, and since when there are some.

A relation with a failed row has no right answer until that row is gone, as the origin has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.engine.operators.batch import Int64s


@dataclass(slots=True)
class Failures:
    counts: Counter[str] = field(default_factory=Counter)
    pending: list[tuple[int, str, int]] = field(default_factory=list)

    def note(self, failed: Mapping[int, str], tx: Int64s, diff: Int64s) -> None:
        """`failed` says by place why a row has no value; the same row leaves with the same reason."""
        for place, reason in failed.items():
            self.pending.append((int(tx[place]), reason, int(diff[place])))

    def settle(self) -> list[tuple[int, str | None]]:
        """The transactions at which the reason changed, and what it is from there on; None: all is well again."""
        moments: list[tuple[int, str | None]] = []
        known = self.reason
        by_tx: dict[int, list[tuple[str, int]]] = {}
        for tx, reason, diff in self.pending:
            by_tx.setdefault(tx, []).append((reason, diff))
        for tx in sorted(by_tx):
            for reason, diff in by_tx[tx]:
                self.counts[reason] += diff
            if self.reason != known:
                known = self.reason
                moments.append((tx, known))
        self.pending = []
        self.counts = Counter({reason: count for reason, count in self.counts.items() if count})
        return moments

    @property
    def reason(self) -> str | None:
        return min((reason for reason, count in self.counts.items() if count), default=None)
