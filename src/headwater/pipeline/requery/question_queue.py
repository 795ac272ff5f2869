"""The queue of windows to query the source for. Clients take turns, and so do the windows of one client.

Some lanes are reserved for slow queries, so that these never block the others; no client can use all lanes of a kind.
It identifies windows and clients by numbers, and reads no clock. Not safe for several threads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Turns:
    """By client, its windows that are due; the client that was served last is the last."""

    clients: OrderedDict[int, OrderedDict[int, None]] = field(default_factory=OrderedDict)

    def put(self, client: int, window: int) -> None:
        self.clients.setdefault(client, OrderedDict())[window] = None

    def discard(self, client: int, window: int) -> None:
        windows = self.clients.get(client)
        if windows is not None:
            windows.pop(window, None)
            if not windows:
                del self.clients[client]

    def take(self, running: Counter[int], most: int) -> tuple[int, int] | None:
        """The next window of the next client that runs fewer than `most`, and whose it is."""
        for client in self.clients:
            if running[client] < most:
                window = next(iter(self.clients[client]))
                self.discard(client, window)
                if client in self.clients:
                    self.clients.move_to_end(client)
                return window, client
        return None


class QuestionQueue:
    def __init__(self, lanes: int) -> None:
        """`lanes` are those of each kind: as many are for slow questions as are not."""
        self._most = max(1, lanes - 1)
        self._turns = {False: _Turns(), True: _Turns()}
        self._whose: dict[int, tuple[int, bool]] = {}  # of a window that is due: its client, and whether it is slow
        self._running = {False: Counter[int](), True: Counter[int]()}

    def put(self, window: int, client: int, slow: bool) -> None:
        self.discard(window)
        self._whose[window] = client, slow
        self._turns[slow].put(client, window)

    def discard(self, window: int) -> None:
        found = self._whose.pop(window, None)
        if found is not None:
            client, slow = found
            self._turns[slow].discard(client, window)

    def take(self, lane_is_slow: bool) -> tuple[int, int] | None:
        """For a lane: a window and its client. A lane for slow questions takes others while no slow one is due."""
        for slow in (True, False) if lane_is_slow else (False,):
            found = self._turns[slow].take(self._running[lane_is_slow], self._most)
            if found is not None:
                del self._whose[found[0]]
                self._running[lane_is_slow][found[1]] += 1
                return found
        return None

    def done(self, lane_is_slow: bool, client: int) -> None:
        running = self._running[lane_is_slow]
        running[client] -= 1
        if running[client] <= 0:
            del running[client]

    def due(self) -> list[int]:
        """All windows that are due, whoever they are of."""
        return list(self._whose)
