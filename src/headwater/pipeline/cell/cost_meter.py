"""CostMeter: what the steps of each relation cost a cell, in CPU of its thread, for the pipeline to weigh.

What a cell emits does not depend on it: the costs go with a report, and what is decided by them is logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REPORTED_US = 20_000  # less is told with a later report: most steps cost little, and reports are many


class CostMeter:
    def __init__(self, clock_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self._clock_ns = clock_ns
        self._spent: dict[str, tuple[int, int]] = {}

    @contextmanager
    def of(self, relation: str, transactions: int) -> Iterator[None]:
        """Of a step of this relation, which takes so many transactions."""
        began_ns = self._clock_ns()
        try:
            yield
        finally:
            spent_us, before = self._spent.get(relation, (0, 0))
            self._spent[relation] = spent_us + (self._clock_ns() - began_ns) // 1000, before + transactions

    def due(self) -> dict[str, tuple[int, int]]:
        """What is worth telling, and was not told yet."""
        told = {name: spent for name, spent in self._spent.items() if spent[0] >= _REPORTED_US}
        for name in told:
            del self._spent[name]
        return told
