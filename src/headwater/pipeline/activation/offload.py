"""Runs worker processes that read large tables and build the state of large templates, so that the server need not.

If such a process fails or takes too long, the server and its cells do the work themselves, with the same result; work
over their limits is refused.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.fs.permissions import make_directory
from headwater.fs.sync import pending_syncs, sync_now
from headwater.model.errors import Corrupt, HeadwaterError, LimitExceeded
from headwater.model.limits import Limits
from headwater.pipeline.activation import build_worker, read_worker
from headwater.pipeline.activation.hydration import Progress, hydrate, hydrate_few
from headwater.pipeline.activation.worker_process import PROGRAM
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, Built, Hydration
from headwater.sources.source import Source

COMMAND = [sys.executable, "-P", "-c", PROGRAM]
_ROW_BYTES = 16  # hardly a row has fewer: so many of them are not even tried here
_log = logging.getLogger("headwater.beside")


class Offload:
    """Safe to use from several threads."""

    def __init__(self, layout: Layout, queries: int, limits: Limits) -> None:
        self._layout, self._queries, self._limits = layout, queries, limits
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    @property
    def directory(self) -> Path:
        """Where the rows that were read are."""
        return self._layout.hydration

    def stop(self) -> None:
        """Ends what is being done, and whatever would still begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def hydrated(self, source: Source, tables: Sequence[str], since: int, progress: Progress) -> Iterator[Hydration]:
        """The rows of these tables. Small ones are read here; large ones beside, if another process can open the
        source."""
        directory, address = self._layout.hydration, source.address
        few = sys.maxsize if address is None else self._limits.build_bytes_min
        with pending_syncs() as written:
            found = {
                table: hydrate_few(source, table, directory, since, progress, few)
                if (source.rows_about(table) or 0) * _ROW_BYTES <= few
                else None
                for table in tables
            }
        written.wait()
        large = tuple(table for table, hydration in found.items() if hydration is None)
        if large and address is not None:
            found.update(self._read(read_worker.ReadOrder(address, large, since), progress))
        for table, hydration in found.items():
            yield hydration or hydrate(source, table, directory, since, progress)

    def _read(self, order: read_worker.ReadOrder, progress: Progress) -> dict[str, Hydration]:
        """Nothing where it did not work out."""
        with self._errand("read", order) as directory:
            self._run("read_worker", directory, None, progress)
            read = msgspec.msgpack.decode(read_checked(directory / read_worker.READ), type=tuple[Hydration, ...])
            for file in (file for one in read for file in one.files):
                (directory / file).rename(self._layout.hydration / file)
            sync_now(self._layout.hydration)
            shutil.rmtree(directory)
            return dict(zip(order.tables, read, strict=True))
        return {}

    def makes_here(self, rows: int, pairs: int) -> bool:
        """Whether so many rows, and pairs to compare, are few enough for a cell to take in while others wait."""
        return rows * _ROW_BYTES < self._limits.build_bytes_min and pairs < self._limits.build_pairs_min

    def built(self, activate: Activate, partitions: tuple[int, ...], here: int, pairs: int) -> tuple[Built, ...]:
        """For each partition its state; nothing where the rows are few, or where it did not work out. `pairs`: so many
        may have to be compared."""
        limits = self._limits
        if self._bytes(activate) < limits.build_bytes_min and pairs < limits.build_pairs_min:
            return ()
        root = str(self._layout.root.resolve())
        order = build_worker.BuildOrder(root, activate, partitions, self._queries, here, _generous(limits))
        with self._errand("built", order) as directory:
            self._run("build_worker", directory, limits.build_ms_max / 1000)
            if (directory / build_worker.REFUSED).exists():
                reason = read_checked(directory / build_worker.REFUSED).decode()
                shutil.rmtree(directory)
                raise LimitExceeded(reason, hint="join the tables on an equality, or select fewer rows")
            return msgspec.msgpack.decode(read_checked(directory / build_worker.BUILT), type=tuple[Built, ...])
        if pairs > limits.work_pairs_max:
            raise LimitExceeded(
                f"the query could not be set up within {limits.build_ms_max / 1000:.0f} s: its joins may compare up to "
                f"{pairs:,} pairs of rows",
                hint="join the tables on an equality, or select fewer rows",
            )
        return ()

    def _bytes(self, activate: Activate) -> int:
        return sum((self._layout.hydration / file).stat().st_size for file in activate.files)

    @contextmanager
    def _errand(self, what: str, order: read_worker.ReadOrder | build_worker.BuildOrder) -> Iterator[Path]:
        """A directory with the order in it. What goes wrong in the block ends it, and nothing is left."""
        directory = self._layout.hydration / f"{what}-{secrets.token_hex(8)}"
        try:
            make_directory(directory)
            write_checked(directory / build_worker.ORDER, msgspec.msgpack.encode(order))
            yield directory
        except (OSError, subprocess.SubprocessError, Corrupt, msgspec.MsgspecError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            if self._stopped:
                raise HeadwaterError("the server is shutting down") from None
            _log.warning("the worker process for %r failed; doing its work in the server: %s", what, error)

    def _run(self, name: str, directory: Path, timeout_s: float | None, progress: Progress | None = None) -> None:
        process = self._started([*COMMAND, name, str(directory.resolve())])
        try:
            if progress is not None:
                _follow(process, progress)
            code = process.wait(timeout_s)
        finally:
            self._end(process)
        if code != 0:
            raise subprocess.SubprocessError(f"worker process {name} exited with code {code}")

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with process, self._lock:
            process.kill()
            self._running.discard(process)

    def _started(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Its standard input stays open for as long as we live."""
        with self._lock:
            if self._stopped:
                raise subprocess.SubprocessError("the server is shutting down")
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            self._running.add(process)
            return process


def _generous(limits: Limits) -> Limits:
    """What a process of its own may use, which delays nobody."""
    return replace(limits, work_pairs_max=limits.build_pairs_max, work_bytes_max=limits.build_memory_bytes_max)


def _follow(process: subprocess.Popen[bytes], progress: Progress) -> None:
    """What it says of its progress, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        rows, _, table = line.decode().rstrip("\n").partition(" ")
        progress(table, int(rows))
