"""Group commit: calls that come while one is being committed are committed together, by the next caller.

Knows nothing of files. Starts no thread: the callers do the work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


class _Turn(Generic[In, Out]):
    __slots__ = ("done", "error", "item", "out")

    def __init__(self, item: In) -> None:
        self.item = item
        self.done = False
        self.out: Out | None = None
        self.error: BaseException | None = None


class GroupCommit(Generic[In, Out]):
    """`commit` gets the items of all callers that wait, and gives their outcomes, in order; `lock` is held meanwhile.

    If it raises, it raised for all of them.
    """

    def __init__(self, commit: Callable[[list[In]], list[Out]], lock: threading.Lock) -> None:
        self._commit = commit
        self._lock = lock
        self._waiting: deque[_Turn[In, Out]] = deque()

    def __call__(self, item: In) -> Out:
        turn: _Turn[In, Out] = _Turn(item)
        self._waiting.append(turn)
        with self._lock:
            if not turn.done:
                self._lead()
        if turn.error is not None:
            raise turn.error
        return turn.out  # type: ignore[return-value]

    def _lead(self) -> None:
        turns = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            outcomes = self._commit([turn.item for turn in turns])
            for turn, out in zip(turns, outcomes, strict=True):
                turn.out = out
        except BaseException as error:
            for turn in turns:
                turn.error = error
        finally:
            for turn in turns:
                turn.done = True
