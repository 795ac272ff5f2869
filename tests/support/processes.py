"""Servers and writers as processes of their own, on loopback and free ports, always stopped by who started them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.client.database import Database

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """`headwater serve` as a process; it can be killed and started again on the same port and data."""

    def __init__(self, source: Path | str, data_dir: Path, *, runner: str, options: tuple[str, ...] = ()) -> None:
        """`source` is an SQLite file, or the address of another database."""
        self.port = free_port()
        address = source if isinstance(source, str) else f"sqlite:///{source}"
        self._command = [sys.executable, "-m", "headwater.cli", "serve", "--source", address]
        self._command += ["--data-dir", str(data_dir), "--runner", runner, "--port", str(self.port), *options]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert "live at" in said, said

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/status", timeout=60) as answer:
            return dict(json.load(answer))

    def health(self) -> dict[str, Any]:
        return health_at(self.url)

    def terminate(self) -> None:
        """What a supervisor does; returns when the process has ended."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()
        self._close()

    def kill(self) -> None:
        """No farewell: what a power cut or the OOM killer does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def served(source: Path | str, data_dir: Path, *, runner: str, options: tuple[str, ...] = ()) -> Iterator[Served]:
    server = Served(source, data_dir, runner=runner, options=options)
    try:
        yield server
    finally:
        server.stop()


def spawn_writer(
    path: Path, writer: int, count: int, changes_max: int = 50, pause_s: float = 0.0
) -> subprocess.Popen[bytes]:
    """One writer of the shop; `count` committed transactions."""
    arguments = [str(path), *map(str, (writer, count, changes_max, pause_s))]
    command = [sys.executable, "-m", "tests.support.shop", *arguments]
    return subprocess.Popen(command, cwd=ROOT)


def kill_worker(db: Database, cell: int) -> int:
    """The process that runs a cell goes, in the middle of anything: its pid. Never one that had gone by itself."""

    def killed() -> int | None:
        pid = int(db.status()["cells"][cell]["pid"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return pid
        return None

    return int(eventually(killed))


def health_at(url: str) -> dict[str, Any]:
    """What a gateway's `/health` says, whatever its status is."""
    try:
        with urllib.request.urlopen(f"http{url.removeprefix('ws')}/health", timeout=60) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as refused:
        with refused:
            return dict(json.load(refused))


def descendants(pid: int) -> dict[int, str]:
    """All processes that a process has started, directly or not, with their command lines."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = parent_of(int(entry.name))
    found, new = {pid}, {pid}
    while new := {child for child, parent in parents.items() if parent in new}:
        found |= new
    return {one: command for one in found - {pid} if (command := _command(one))}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    """Empty for one that has ended."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def jvm_of(pid: int) -> int:
    [jvm] = [one for one, command in descendants(pid).items() if "/java " in command and "spark" in command]
    return jvm


def eventually(what: Any, timeout_s: float = 120.0) -> Any:
    """Asks again and again until the answer is not falsy."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = what()
        if answer or time.monotonic() > deadline:
            assert answer, "it never became so"
            return answer
        time.sleep(0.02)
