"""The process that writes to the demo's shop. It reads `rate N` and `count` from its input, answers each with the
transactions so far, and never outlives the process that started it."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import random
import select
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from headwater.demo import shop
from headwater.demo.shop_file import open_shop
from headwater.demo.traffic import RATE_DEFAULT

_PARENT_CHECK_S = 0.5
_LAG_S_MAX = 0.1  # a writer further behind lets the rest go


class RateLimit:
    """When the next transaction is due. A long pause is not followed by a burst."""

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._due_s = now_s

    def set_rate(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._due_s = now_s

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until the next one; None while the rate is zero."""
        return max(0.0, self._due_s - now_s) if self.rate > 0 else None

    def take(self, now_s: float) -> None:
        """One is made now."""
        self._due_s = max(self._due_s, now_s - _LAG_S_MAX) + 1 / self.rate


class ShopWriter:
    """The traffic process itself: reads lines, answers them, trades in between."""

    def __init__(
        self, db: sqlite3.Connection, chance: random.Random, pace: RateLimit, commands: TextIO, answers: TextIO
    ) -> None:
        self._db = db
        self._chance = chance
        self._pace = pace
        self._commands = commands
        self._answers = answers
        self._made = 0
        self._parent = os.getppid()

    def run(self) -> None:
        while os.getppid() == self._parent:
            wait_s = self._pace.wait_s(time.monotonic())
            timeout_s = _PARENT_CHECK_S if wait_s is None else min(wait_s, _PARENT_CHECK_S)
            if select.select([self._commands], [], [], timeout_s)[0]:
                if not self._obey(self._commands.readline()):
                    return
            elif self._pace.wait_s(time.monotonic()) == 0.0:
                self._trade()

    def _trade(self) -> None:
        self._pace.take(time.monotonic())
        shop.trade(self._db, self._chance, dt.datetime.now())
        self._made += 1

    def _obey(self, line: str) -> bool:
        """False at the end of the input: the parent is gone, or has had enough."""
        match line.split():
            case []:
                return False
            case ["rate", rate]:
                self._pace.set_rate(float(rate), time.monotonic())
        self._answers.write(f"{self._made}\n")
        self._answers.flush()
        return True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m headwater.demo.traffic_process", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rate", type=float, default=RATE_DEFAULT)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    with contextlib.closing(open_shop(options.path)) as db, contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        pace = RateLimit(options.rate, time.monotonic())
        ShopWriter(db, random.Random(options.seed), pace, sys.stdin, sys.stdout).run()


if __name__ == "__main__":
    main()
