"""A read transaction on a database file that moves forward, so that no commit leaves the WAL before it is looked at.

While a read transaction is open on a WAL, the WAL is not started over: all commits after it stay readable. So the next
one is always opened before the last is closed. That lets the WAL grow; `let_go` gives it a chance to start over while
no writer can slip in between. Outside WAL mode nothing is pinned, for a reader would keep writers waiting.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.sources.sqlite.wal import WalHeader, WalReader

WAL_BYTES_MAX = 2 << 20  # less than the 1,000 pages at which every commit of a writer tries a checkpoint
LET_GO_TRIES_S = 0.05
FRAMES_TRIES, FRAMES_PAUSE_S = 200, 0.001


class ReadPins:
    """Belongs to one thread at a time."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], wal: WalReader) -> None:
        self._held, self._free, self._gate = connect(), connect(), connect()
        self._gate.execute("PRAGMA busy_timeout = 0")
        self._wal = wal
        self._tried: tuple[WalHeader | None, int] = (None, 0)  # the WAL and its size when it was last let go of
        self._bytes_quiet = 0  # the WAL's size when it was last looked at
        self._bytes_settled = 0

    @contextmanager
    def forward(self) -> Iterator[sqlite3.Connection]:
        """The present state, in a read transaction; what was pinned before is let go of at the end of the block."""
        db = self._free
        try:
            _begin(db)
            yield db
            stays = self._held.in_transaction or _has_wal(db)  # while one is held nobody can leave WAL mode
        except BaseException:
            _finish(db)
            raise
        _finish(self._held)
        self._held, self._free = db, self._held
        if not stays:
            _finish(db)

    def frames(self) -> int:
        """How many frames of the WAL SQLite knows to be committed. Asking costs a checkpoint: for cases of doubt."""
        for _ in range(FRAMES_TRIES):
            found = int(self._gate.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
            if found >= 0:
                return found
            time.sleep(FRAMES_PAUSE_S)  # another connection is at a checkpoint
        return 0

    @property
    def due(self) -> bool:
        """The WAL has grown enough to be let go of."""
        wal, size = self._tried
        return self._wal.bytes_read - (size if wal == self._wal.header else 0) > WAL_BYTES_MAX

    def tick(self) -> None:
        """Now and then: keeps the WAL from growing, and out of the way of another process's checkpoint."""
        if not _has_wal(self._held):
            return
        self._wal.read()
        size = self._wal.bytes_read
        if self.due:
            self._tried = (self._wal.header, size)
            self.let_go()
        elif size == self._bytes_quiet != self._bytes_settled:
            self._bytes_settled = size
            self._checkpoint()
            self._move()
        self._bytes_quiet = size

    def let_go(self) -> None:
        """With all of the WAL read and copied into the database, and every writer held off, pins anew: such a pin is on
        the database itself, and the next writer starts the WAL over."""
        self._checkpoint()  # most of it, while writers go on
        if not self._writers_held_off():
            return
        try:
            self._move()
            self._checkpoint()
            self._move()
        finally:
            self._gate.execute("ROLLBACK")

    def _writers_held_off(self) -> bool:
        """Tries again and again, for a busy writer leaves only short gaps. False where one writes for long."""
        until_s = time.monotonic() + LET_GO_TRIES_S
        while True:
            try:
                self._gate.execute("BEGIN IMMEDIATE")
                return True
            except sqlite3.OperationalError:
                if time.monotonic() > until_s:
                    return False

    def close(self) -> None:
        for db in (self._held, self._free, self._gate):
            db.close()

    def _move(self) -> None:
        with self.forward():
            self._wal.read()

    def _checkpoint(self) -> None:
        self._free.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def _begin(db: sqlite3.Connection) -> None:
    db.execute("BEGIN")
    db.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _has_wal(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def _finish(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("COMMIT")
