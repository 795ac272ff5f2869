"""Full collections are rare, and still find what only they find."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from headwater.runtime.garbage import YOUNG, FullCollections


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_everything_is_collected_when_it_is_due_and_much_was_added() -> None:
    now = [0.0]
    due = FullCollections(lambda: now[0], interval_s=600, added_min=10_000)
    lost = weakref.ref(Cycle())
    now[0] = 599.0
    assert not due.collect_if_due()
    now[0] = 601.0
    kept: list[list[list[int]]] = []
    for _ in range(10):
        kept.append([[] for _ in range(YOUNG[0])])
        gc.collect(1)
    assert due.collect_if_due() and lost() is None
    assert not due.collect_if_due()
    now[0] = 1300.0
    assert not due.collect_if_due(), "nothing was added"


def test_no_full_collection_comes_by_itself() -> None:
    """In a process of its own: the settings are the whole process's."""
    script = """
import gc
from headwater.runtime.garbage import collect_rarely
collect_rarely()
before = gc.get_stats()[2]["collections"]
kept = [[n] for n in range(500_000)]
assert gc.get_stats()[2]["collections"] == before
assert gc.get_stats()[1]["collections"] > 10
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
