"""How soon to look for commits again. Single commits are looked for at once; where one follows the other, those of a
few milliseconds share a look, and so a write to the log, a step and a message. They stay transactions of their own.

It only waits; it looks at nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

GATHER_S = 0.005  # from one look that found something to the next, while there is much to find
_BUSY_S = 1.5 * GATHER_S  # two that found something closer than this: there is


class LookPace:
    """Belongs to the thread that looks."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._found_s = -1.0
        self._is_busy = False

    def found(self, now_s: float) -> None:
        """A look found something."""
        self._is_busy = now_s - self._found_s < _BUSY_S
        self._found_s = now_s

    def gather(self, now_s: float, timeout_s: float) -> None:
        """Lets commits gather, where they follow one another."""
        left_s = min(self._found_s + GATHER_S - now_s, timeout_s)
        if self._is_busy and left_s > 0:
            self._sleep(left_s)
