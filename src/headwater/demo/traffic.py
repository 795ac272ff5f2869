"""The demo's traffic: a separate process that keeps the shop busy, because that is what Headwater is for. It sees the
commits of programs that know nothing of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

from headwater.model.errors import HeadwaterError

RATE_DEFAULT = 8.0  # transactions per second
RATE_MAX = 500.0


class Traffic:
    """A writer in a process of its own. A context manager; `rate` is in transactions per second, 0 to `RATE_MAX`."""

    def __init__(self, path: str | Path, *, rate: float = RATE_DEFAULT, seed: int = 7) -> None:
        self._rate = _bounded(rate)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headwater.demo.traffic_process",
                str(path),
                f"--rate={self._rate}",
                f"--seed={seed}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def rate(self) -> float:
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._rate = _bounded(rate)
        self._ask(f"rate {self._rate}")

    def transactions(self) -> int:
        """How many the writer has made so far."""
        return self._ask("count")

    def close(self) -> None:
        """The end of its input tells the writer to stop."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _ask(self, line: str) -> int:
        """Every line is answered with the transactions so far: once answered, it holds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            if answer := self._process.stdout.readline():
                return int(answer)
        raise HeadwaterError(
            "the traffic process has ended", hint="its last words are on standard error; start the demo again"
        )


def _bounded(rate: float) -> float:
    return min(max(float(rate), 0.0), RATE_MAX)
