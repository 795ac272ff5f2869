"""A process that runs questions on an SQLite file, one at a time, and may die of them: nothing else is in it.

It opens the file read-only and speaks with its server over one socket, in marshalled values behind their length. It
ends when the server does. Only the standard library and our errors are imported, so it starts in a moment.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import resource
import select
import signal
import socket
import sqlite3
import struct
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from headwater.model.errors import HeadwaterError, SqlError
from headwater.sources.sqlite.questions.authorizer import Relations, harden
from headwater.sources.sqlite.questions.log_position import log_position
from headwater.sources.sqlite.questions.question import answer, compile_only, describe, source_error

HEADER = struct.Struct("<Q")
MEMORY_BYTES_MAX = 1 << 30  # of the whole process
HEAP_BYTES_MAX = 512 << 20  # of SQLite in it: it fails the statement, and the process lives
_NICE = 10  # those who take changes come first
PACKAGES = (
    "headwater",
    "headwater.model",
    "headwater.sources",
    "headwater.sources.sqlite",
    "headwater.sources.sqlite.questions",
)
PROGRAM = f"""
import os, sys, types
os.nice({_NICE})
for name, path in zip({PACKAGES}, sys.argv[1:]):
    package = sys.modules[name] = types.ModuleType(name)  # without what the packages import themselves
    package.__path__ = [path]
from headwater.sources.sqlite.questions.worker import main
main(sys.argv[-1])
"""


class Worker:
    def __init__(self, path: str) -> None:
        uri = f"file:{quote(path)}?mode=ro"
        self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=0)
        self._db.execute("PRAGMA busy_timeout = 5000")
        self._db.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES_MAX}")
        harden(self._db)
        self._relations = Relations()

    def replies(self, what: str, sql: str, params: Any) -> Iterator[Any]:
        """To one request: any number of values."""
        if what == "end":
            self._end()
        elif what == "begin":
            yield self._begun()
        elif self._db.in_transaction:
            yield from self._asked(what, sql, params)
        else:
            self._begin()
            try:
                yield from self._asked(what, sql, params)
            finally:
                self._end()

    def _asked(self, what: str, sql: str, params: Any) -> Iterator[Any]:
        if what == "describe":
            yield describe(self._db, self._relations, sql, params)
        elif what == "compile":
            compile_only(self._db, self._relations, sql)
        else:
            yield log_position(self._db)
            for text, values in params if what == "ask together" else [(sql, params)]:
                yield from answer(self._db, self._relations, text, values)

    def _begin(self) -> None:
        self._end()
        self._db.execute("BEGIN")

    def _begun(self) -> int:
        """The position of a transaction that stays; where it cannot be read, none does."""
        self._begin()
        try:
            return log_position(self._db)
        except sqlite3.Error:
            self._end()
            raise

    def _end(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def main(path: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the server
    peer = socket.socket(fileno=0)
    threading.Thread(target=_end_with, args=(peer,), daemon=True).start()
    with contextlib.suppress(ValueError, OSError):  # where the system does not let us
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(EOFError, OSError):  # the server is gone, which is no news to anybody
        _serve(peer, path)


def _serve(peer: socket.socket, path: str) -> None:
    """Until the server is gone."""
    worker: Worker | None = None
    while True:
        request = marshal.loads(received(peer))
        try:
            worker = worker or Worker(path)
            for reply in worker.replies(*request):
                send(peer, (True, reply))
            send(peer, (None, None))
        except HeadwaterError as error:
            at = error.at if isinstance(error, SqlError) else None
            send(peer, (False, (error.code, error.message, error.hint, at)))
        except sqlite3.Error as error:
            said = source_error(error, "the database cannot be read")
            send(peer, (False, (said.code, said.message, said.hint, None)))


def _end_with(peer: socket.socket) -> None:
    """A statement that runs does not keep this thread from seeing that the server is gone."""
    watch = select.poll()
    watch.register(peer, 0)
    watch.poll()
    os._exit(1)


def send(peer: socket.socket, value: Any) -> None:
    data = marshal.dumps(value)
    peer.sendall(HEADER.pack(len(data)))
    peer.sendall(data)


def received(peer: socket.socket) -> bytes:
    (length,) = HEADER.unpack(exactly(peer, HEADER.size))
    return exactly(peer, length)


def exactly(peer: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = peer.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise EOFError("the other side is gone")
        parts += part
    return bytes(parts)
