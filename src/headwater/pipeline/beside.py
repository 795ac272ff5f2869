"""Building beside the cells: a template with many rows is built by a process of its own, while the cells go on.

It only spares the cells work: where it fails, or takes too long, they build the template from the rows themselves, and
emit the same.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from headwater.model.errors import HeadwaterError
from headwater.model.limits import Limits
from headwater.pipeline.building import BUILT, ORDER, Order
from headwater.pipeline.layout import Layout
from headwater.pipeline.records import Activate, Built

_PROGRAM = """
import sys

class NoPandas:  # Arrow would import it where it is installed, for a second, and not need it
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas)
from headwater.pipeline.building import main
main()
"""
COMMAND = [sys.executable, "-P", "-c", _PROGRAM]
_log = logging.getLogger("headwater.beside")


class Beside:
    """Safe to use from several threads."""

    def __init__(self, layout: Layout, queries: int, limits: Limits) -> None:
        self._layout, self._queries, self._limits = layout, queries, limits
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def stop(self) -> None:
        """Ends what is being built, and whatever would still begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def built(self, activate: Activate, partitions: tuple[int, ...], here: int) -> tuple[Built, ...]:
        """For each partition its state; nothing where the rows are few, or where it did not work out."""
        if self._bytes(activate) < self._limits.build_bytes_min:
            return ()
        directory = self._layout.hydration / f"built-{secrets.token_hex(8)}"
        order = Order(str(self._layout.root.resolve()), activate, partitions, self._queries, here, self._limits)
        try:
            directory.mkdir()
            (directory / ORDER).write_bytes(msgspec.msgpack.encode(order))
            return msgspec.msgpack.decode(self._run(directory), type=tuple[Built, ...])
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            if self._stopped:
                raise HeadwaterError("expected to build a template, found the server being closed") from None
            _log.warning("the cells build %s themselves: %s", activate.template, error)
            return ()

    def _bytes(self, activate: Activate) -> int:
        return sum((self._layout.hydration / file).stat().st_size for file in activate.files)

    def _run(self, directory: Path) -> bytes:
        process = self._started([*COMMAND, str(directory.resolve())])
        try:
            code = process.wait(self._limits.build_ms_max / 1000)
        finally:
            self._end(process)
        if code != 0:
            raise subprocess.SubprocessError(f"the process that builds it ended with {code}")
        return (directory / BUILT).read_bytes()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with process, self._lock:
            process.kill()
            self._running.discard(process)

    def _started(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Its standard input stays open for as long as we live."""
        with self._lock:
            if self._stopped:
                raise subprocess.SubprocessError("the server is being closed")
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            self._running.add(process)
            return process
