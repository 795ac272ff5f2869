"""The connection that PostgreSQL sends its changes through: START_REPLICATION, keepalives, acknowledgements.

It hands out payloads and places and decodes neither. It acknowledges only what it was told is durable. One thread at a
time reads; `wake` and `acknowledge` may be called from any. A thread of its own tells the server that we live, also
while the one that reads is busy with what it has read.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import threading
import time
from dataclasses import dataclass

import psycopg
from psycopg import pq

from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.tables import quoted
from headwater.sources.postgres.server.blocking_transactions import Patience, deadline
from headwater.sources.postgres.server.connections import Connection, Sessions, speaking
from headwater.sources.postgres.server.lsn import format_lsn, parse_lsn
from headwater.sources.source import ChangesLost

STATUS_S = 1.0  # the server hears from us no later
_BATCH_BYTES = 4 << 20  # of one read
_BUSY = 256  # payloads at once, from which on more are waited for
_LINGER_S = 0.02  # but no longer
_PAUSE_S = 0.002
_BUSY_S = 10.0  # a slot stays in use for a while after its connection was cut
_DATA, _KEEPALIVE = ord("w"), ord("k")
_HEADER = struct.Struct(">QQq")
_ALIVE = struct.Struct(">QqB")
_STATUS = struct.Struct(">cQQQqB")
_EPOCH_S = 946_684_800  # 2000-01-01, where PostgreSQL's time begins


@dataclass(frozen=True, slots=True)
class Received:
    """Payloads in order, and the place that everything committed before was sent up to, where the server said so."""

    payloads: list[bytes]
    upto: int
    size: int = 0


class Replication:
    """Open from the start. Broken once anything was raised: make another one."""

    def __init__(
        self, sessions: Sessions, slot: str, publication: str, start: int, link: Connection | None = None
    ) -> None:
        """Sends every transaction whose commit lies behind `start`, or behind what was last acknowledged. `link` is the
        connection that a temporary slot belongs to."""
        self._slot, self._acknowledged, self._written = slot, 0, start
        self._status_at_s = 0.0
        self._using, self._closed = threading.Lock(), threading.Event()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        try:
            self._db = _started(sessions, slot, publication, start) if link is None else link
            if link is not None:
                with speaking():
                    _start(link, slot, publication, start)
        except BaseException:
            self._close_pipe()
            raise
        self._poll = select.poll()
        self._poll.register(self._db.pgconn.socket, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._replies = threading.Thread(target=self._reply, name="headwater-replies", daemon=True)
        self._replies.start()

    def read(self, timeout_s: float) -> Received:
        """What has come; waits for something, but no longer than the timeout."""
        with speaking():
            received = self._taken()
            if not received.payloads and not received.upto and timeout_s > 0:
                self._wait(min(timeout_s, STATUS_S))
                received = self._taken()
            if len(received.payloads) >= _BUSY:
                received = self._lingering(received, timeout_s)
            self._say_if_due()
            return received

    def acknowledge(self, lsn: int) -> None:
        """Everything up to here is durable with us; the server hears it with the next status."""
        if lsn > self._acknowledged:
            self._acknowledged = lsn
            self._status_at_s = 0.0

    def pass_over(self, lsn: int) -> None:
        """There is nothing to be made durable up to here. Said when something is said anyhow."""
        self._acknowledged = max(self._acknowledged, lsn)

    def wake(self) -> None:
        """Whoever waits in `read` returns."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"!")

    def close(self) -> None:
        self._closed.set()
        self._replies.join()
        with contextlib.suppress(psycopg.Error, SourceError), self._using:
            self._say(0)
        self._db.close()
        self._close_pipe()

    def _reply(self) -> None:
        """The server ends a connection that it has not heard from for a minute. What goes wrong here, whoever reads
        finds too."""
        while not self._closed.wait(STATUS_S):
            with contextlib.suppress(psycopg.Error, SourceError):
                self._say_if_due()

    def _say_if_due(self) -> None:
        with self._using:
            if time.monotonic() >= self._status_at_s:
                self._say(0)

    def _lingering(self, received: Received, timeout_s: float) -> Received:
        """While much is coming: what costs less taken together."""
        until_s = time.monotonic() + min(timeout_s, _LINGER_S)
        while received.size < _BATCH_BYTES and time.monotonic() < until_s:
            time.sleep(_PAUSE_S)
            more = self._taken()
            if not more.payloads:
                break
            size, upto = received.size + more.size, max(received.upto, more.upto)
            received = Received(received.payloads + more.payloads, upto, size)
        return received

    def _taken(self) -> Received:
        """All that is there, up to a batch."""
        with self._using:
            return self._taken_now()

    def _taken_now(self) -> Received:
        conn = self._db.pgconn
        conn.consume_input()
        payloads: list[bytes] = []
        upto = size = 0
        is_new = False  # since input was last consumed
        while size < _BATCH_BYTES:
            length, data = conn.get_copy_data(1)
            if length == 0:
                if not is_new:
                    break
                conn.consume_input()
                is_new = False
                continue
            is_new = True
            if length < 0:
                raise self._ended()
            if data[0] == _DATA:
                payloads.append(bytes(data[25:]))
                size += length
            elif data[0] == _KEEPALIVE:
                upto, _, wants_reply = _ALIVE.unpack_from(data, 1)  # ascending
                self._written = max(self._written, upto)
                if wants_reply:
                    self._say(0)
        return Received(payloads, upto, size)

    def _ended(self) -> SourceError:
        result = self._db.pgconn.get_result()
        words = result.error_message.decode(errors="replace").strip() if result is not None else ""
        return _refusal(f"PostgreSQL ended the replication: {words or 'no reason given'}", self._slot, words)

    def _wait(self, timeout_s: float) -> None:
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._woken:
                os.read(self._woken, 64)

    def _say(self, wants_reply: int) -> None:
        conn = self._db.pgconn
        now_us = int((time.time() - _EPOCH_S) * 1_000_000)
        durable = self._acknowledged
        conn.put_copy_data(_STATUS.pack(b"r", max(self._written, durable), durable, durable, now_us, wants_reply))
        conn.flush()
        self._status_at_s = time.monotonic() + STATUS_S

    def _close_pipe(self) -> None:
        os.close(self._woken)
        os.close(self._waker)


def temporary_slot(sessions: Sessions, name: str, patience: Patience, seconds: float) -> tuple[Connection, int]:
    """A slot that goes with the connection it was made by; where its stream begins."""
    db = sessions.open(replication="database")
    try:
        with speaking(), deadline(sessions, db, patience, seconds, "start capturing the database"):
            row = db.execute(f"CREATE_REPLICATION_SLOT {quoted(name)} TEMPORARY LOGICAL pgoutput".encode()).fetchone()
        assert row is not None
        return db, parse_lsn(row[1])
    except BaseException:
        db.close()
        raise


def _started(sessions: Sessions, slot: str, publication: str, start: int) -> Connection:
    until_s = time.monotonic() + _BUSY_S
    pause_s = 0.005
    while True:
        db = sessions.open(replication="database")
        try:
            with speaking():
                _start(db, slot, publication, start)
            return db
        except SourceError as error:
            db.close()
            if "is active" not in error.message or time.monotonic() > until_s:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.2)


def _start(db: Connection, slot: str, publication: str, start: int) -> None:
    streaming = db.info.server_version >= 140000
    options = {
        "proto_version": "2" if streaming else "1",
        "publication_names": quoted(publication).replace("'", "''"),
        **({"streaming": "on", "messages": "true"} if streaming else {}),
    }
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    sql = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {format_lsn(start)} ({given})"
    conn = db.pgconn
    conn.send_query(sql.encode())
    while conn.flush():
        select.select([], [conn.socket], [])
    while conn.is_busy():
        select.select([conn.socket], [], [])
        conn.consume_input()
    result = conn.get_result()
    if result is None or result.status != pq.ExecStatus.COPY_BOTH:
        words = result.error_message.decode(errors="replace").strip() if result is not None else "nothing"
        said = words.removeprefix("ERROR:").strip()
        raise _refusal(f"PostgreSQL does not send the changes of slot {slot}: {said}", slot, words)


def _refusal(message: str, slot: str, words: str) -> SourceError:
    """Our publication has the slot's name."""
    if f'"{slot}" does not exist' in words or "invalidated" in words or "can no longer" in words:
        return ChangesLost(message)
    return SourceError(message)
