"""Processes that run questions on an SQLite file. One that dies, takes too long or is not wanted any more is replaced.

A question has its process to itself until it is answered. Nothing here reads the database.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.model import errors
from headwater.model.errors import (
    HeadwaterError,
    LimitExceeded,
    PermissionDenied,
    SourceError,
    SqlError,
    UnsupportedQuery,
)
from headwater.sources.cancellation import Cancellation
from headwater.sources.sqlite.questions.worker import HEADER, PACKAGES, PROGRAM, exactly, send

_IDLE_MAX = 4  # processes kept
_SLOW_MS, _SLOW_NICE = 250, 19  # what takes so long gets the processor's time that nobody else wants
_PACKAGE = Path(errors.__file__).parent.parent
_PATHS = [str(_PACKAGE / Path(*name.split(".")[1:])) for name in PACKAGES]
_CODES: dict[str, type[HeadwaterError]] = {
    one.code: one for one in (SqlError, UnsupportedQuery, LimitExceeded, PermissionDenied)
}


class QuestionProcess:
    """One worker and the socket to it. Once a question `is_slow`, the process has the lowest priority for good: for the
    next question another one is started."""

    def __init__(self, path: Path) -> None:
        self._peer, other = socket.socketpair()
        with other:
            command = [sys.executable, "-I", "-S", "-c", PROGRAM, *_PATHS, str(path)]
            self._process = subprocess.Popen(command, stdin=other.fileno(), stdout=subprocess.DEVNULL)
        self._is_free, self._is_killed = True, False
        self.is_slow = False
        self._taken_bytes = 0  # of the answer that is read now

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """It waits for a question. One that is cancelled just as it is answered ends its process all the same."""
        return self._is_free and not self._is_killed

    def ask(self, cancellation: Cancellation, what: str, sql: str = "", params: Any = ()) -> Iterator[Any]:
        """The replies, as they come. To leave before the last one is to end the process."""
        was_usable, self._is_free = self.is_usable, False
        try:
            with cancellation.stopping(self.kill):
                if not was_usable:
                    raise SourceError("the process that ran the previous query ended", hint="run the query again")
                send(self._peer, (what, sql, params))
                self._taken_bytes = 0
                while (reply := self._reply(cancellation))[0] is not None:
                    if not reply[0]:
                        self._is_free = True
                        raise _error(sql, *reply[1])
                    yield reply[1]
                self._is_free = True
        except (EOFError, OSError):
            cancellation.check()
            raise self._died(sql) from None

    def _reply(self, cancellation: Cancellation) -> tuple[bool | None, Any]:
        if not self.is_slow and not self._answers_soon(cancellation):
            self.is_slow = True
            with contextlib.suppress(OSError):  # it has just ended
                os.setpriority(os.PRIO_PROCESS, self.pid, _SLOW_NICE)
        (length,) = HEADER.unpack(self._received(cancellation, HEADER.size))
        self._taken_bytes += length
        cancellation.check_size(self._taken_bytes)
        found: tuple[bool | None, Any] = marshal.loads(self._received(cancellation, length))
        return found

    def _answers_soon(self, cancellation: Cancellation) -> bool:
        waiting = select.poll()
        waiting.register(self._peer, select.POLLIN)
        return bool(waiting.poll(min(_SLOW_MS, cancellation.left_s * 1000)))

    def _received(self, cancellation: Cancellation, length: int) -> bytes:
        self._peer.settimeout(cancellation.left_s or 0.001)
        return exactly(self._peer, length)

    def _died(self, sql: str) -> HeadwaterError:
        self.kill()
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return SqlError(
            f"the process that ran the query ended ({how})",
            sql=sql,
            hint="SQLite failed or ran out of memory in this query: simplify it",
        )

    def leave(self) -> None:
        """Ends the transaction that `begin` began."""
        if self.is_usable:
            list(self.ask(Cancellation(), "end"))

    def kill(self) -> None:
        self._is_killed = True
        self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        self._peer.close()


class QuestionProcesses:
    """Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[QuestionProcess] = []
        self._busy: set[QuestionProcess] = set()
        self._closed = False

    @property
    def busy(self) -> int:
        """How many questions run now."""
        return len(self._busy)

    @contextmanager
    def lent(self) -> Iterator[QuestionProcess]:
        process = self._taken()
        try:
            yield process
        finally:
            self._return(process)

    def _taken(self) -> QuestionProcess:
        with self._lock:
            if self._closed:
                raise SourceError("the source is closed")
            process = self._idle.pop() if self._idle else QuestionProcess(self._path)
            self._busy.add(process)
            return process

    def _return(self, process: QuestionProcess) -> None:
        with self._lock:
            self._busy.discard(process)
            if process.is_usable and not process.is_slow and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """Also what runs ends."""
        with self._lock:
            self._closed = True
            for process in self._busy:
                process.kill()
            idle, self._idle = self._idle, []
        for process in idle:
            with contextlib.suppress(OSError):
                process.close()


def _error(sql: str, code: str, message: str, hint: str | None, at: tuple[int, int] | None) -> HeadwaterError:
    kind = _CODES.get(code, SourceError)
    if issubclass(kind, SqlError):
        return kind(message, sql=sql, at=at, hint=hint)
    return kind(message, hint=hint)
