"""A new client now and then, while others are served: how long it waits from its connection to its first result."""

from __future__ import annotations

import itertools
import json
import threading
import time

from websockets.sync.client import connect

_SQL = "SELECT id, committing FROM ticks WHERE id = ?"
_FIRST = 1_000_000  # rows that nobody else asks for, and that are not there
Waited = tuple[float, float]  # when it came, and for how long it waited, in seconds


class Newcomers(threading.Thread):
    """One every so many seconds, after the one before has its result; each subscribes once and leaves."""

    def __init__(self, url: str, interval_s: float) -> None:
        super().__init__(daemon=True)
        self._url, self._interval_s = url, interval_s
        self._ended = threading.Event()
        self.waited: list[Waited] = []

    def run(self) -> None:
        for number in itertools.count(_FIRST):
            began = time.monotonic()
            self._subscribe(number)
            self.waited.append((began, time.monotonic() - began))
            if self._ended.wait(self._interval_s):
                return

    def _subscribe(self, number: int) -> None:
        with connect(self._url, open_timeout=120, compression=None) as socket:
            socket.send('{"type": "hello"}')
            socket.send(json.dumps({"type": "subscribe", "id": "q", "sql": _SQL, "params": [number]}))
            while (message := json.loads(socket.recv()))["type"] != "ready":
                if message["type"] == "error":
                    raise RuntimeError(message)

    def stop(self) -> None:
        self._ended.set()
        self.join()
