"""A gateway in a process of its own, inline, over a SQLite file, for benchmarks: what it costs is read from /proc."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.gateway.server import Server
from headwater.gateway.web.app import make_app
from headwater.gateway.web.serve import address, listen, serve

_TICKS = os.sysconf("SC_CLK_TCK")
_FAREWELL_S = 30.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Gateway:
    url: str
    pid: int

    def cpu_s(self) -> float:
        """Of all its threads and of its children, so far."""
        return _ticks(self.pid) / _TICKS

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def measured(self, seconds: float) -> float:
        """Seconds of CPU in so many seconds of now."""
        before = self.cpu_s()
        time.sleep(seconds)
        return self.cpu_s() - before


def _ticks(pid: int) -> int:
    """Of a process, of its children that have ended, and of those that run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in _children(task)]
    return sum(int(one) for one in fields[11:15]) + sum(map(_ticks, children))


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except FileNotFoundError:  # the thread has ended meanwhile
        return []


@contextlib.contextmanager
def gateway(path: Path, data_dir: Path) -> Iterator[Gateway]:
    command = [sys.executable, "-m", "bench.gateway", str(path), str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Gateway("ws" + process.stdout.readline().strip().removeprefix("http") + "/v1/ws", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_FAREWELL_S)
            except subprocess.TimeoutExpired:
                process.kill()


def main(path: str, data_dir: str) -> None:
    server = Server(f"sqlite:///{path}", runner="inline", data_dir=Path(data_dir)).start()
    bound = listen("127.0.0.1", 0)
    try:
        serve(make_app(server), bound, on_started=lambda: print(address(bound), flush=True))
    finally:
        server.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
