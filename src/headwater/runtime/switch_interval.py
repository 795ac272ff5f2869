"""Python work in one thread while others must answer soon: meanwhile the interpreter changes threads often.

A thread that waits for the interpreter gets it after the *switch interval*, 5 ms by default, and a step of a cell waits
for it many times. It is the whole process's, so it is shorter only while such work is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OFTEN_S = 0.0001
_lock = threading.Lock()
_working = 0
_before = _OFTEN_S


@contextmanager
def yielding() -> Iterator[None]:
    """May be nested, and used by several threads: the last one to end puts back what was."""
    global _working, _before
    with _lock:
        if _working == 0:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _OFTEN_S))
        _working += 1
    try:
        yield
    finally:
        with _lock:
            _working -= 1
            if _working == 0:
                sys.setswitchinterval(_before)
