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
        """Of all its threads, so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def measured(self, seconds: float) -> float:
        """Seconds of CPU in so many seconds of now."""
        before = self.cpu_s()
        time.sleep(seconds)
        return self.cpu_s() - before


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
