"""The source positions of what a step emits. All but the last position are forgotten after the step."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.log.record import tx_of


class StepPositions:
    """`last` is the position of the last transaction that the cell has taken."""

    def __init__(self, last: int) -> None:
        self.last = last
        self._by_tx: dict[int, int] = {}
        self._asked: dict[int, int] = {}

    def transactions(self, offset: int, positions: Iterable[int]) -> None:
        """Those of the transactions of one frame, which ends at this log offset."""
        for ordinal, position in enumerate(positions):
            self._by_tx[tx_of(offset, ordinal)] = self.last = position

    def control(self, offset: int) -> None:
        """A control record stands where the transaction before it stood."""
        self._by_tx[tx_of(offset, 0)] = self.last

    def answer(self, offset: int, position: int) -> None:
        """An answer of the source is right for the position that it was given at."""
        self._by_tx[tx_of(offset, 0)] = position

    def ask(self, instance: int, position: int | None = None) -> None:
        """A window was asked for: at this position, or else at the last one."""
        self._asked.setdefault(instance, self.last if position is None else position)

    def of(self, tx: int, instance: int) -> int:
        """That of its transaction; a snapshot, which repeats an older tx, is right for when it was asked for."""
        position = self._by_tx.get(tx)
        return self._asked.get(instance, self.last) if position is None else position

    def clear(self) -> None:
        self._by_tx.clear()
        self._asked.clear()
