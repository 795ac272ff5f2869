"""Small or large: what both sides of each threshold in `model/size.py` cost, around the threshold.

CPU time, not elapsed time; each figure is the best of several tries, on inputs that are the same for both sides."""

from __future__ import annotations

import random
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headwater.model.size import SMALL
from tests.support.sizes import NAMES, PAIRS, SIDES, Side, forced

_SHARES = (1 / 8, 1 / 2, 1, 2, 8)  # of the threshold
_TRIES = 7


def run(seconds: float, out: Path) -> None:
    shares = [f"{share:g}×" for share in _SHARES]
    table = Table("threshold", "rows", *shares, title="small | large, µs of CPU at so many times the threshold")
    for name in NAMES:
        largest = getattr(SMALL, name)
        sizes = [max(1, round(share * largest)) for share in _SHARES]
        table.add_row(name, str(largest), *(_compared(name, size) for size in sizes))
    Console(width=160).print(table)


def _compared(name: str, size: int) -> str:
    small, large = (min(_cost_us(name, size, side, seed) for seed in range(_TRIES)) for side in SIDES)
    return f"{small:,.0f} | {large:,.0f}"


def _cost_us(name: str, size: int, side: Side, seed: int) -> float:
    """What is made at first, such as compiled expressions, is not part of it."""
    work = PAIRS[name](random.Random(seed), size)
    with forced(side, [name]):
        began = time.process_time_ns()
        work()
        return (time.process_time_ns() - began) / 1000
