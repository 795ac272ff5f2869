"""Connections to the server, all with the same settings: values read the same wherever they come from.

Every connection string of libpq is taken as it is; nothing here knows what the connections are for.
"""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from headwater.model.errors import HeadwaterError, SourceError, SqlError
from headwater.model.value import Row
from headwater.sources.cancellation import Cancellation
from headwater.sources.postgres.server.value_types import BUILT_IN, Types, written

Connection = psycopg.Connection[Any]

_PINNED = {
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "client_encoding": "UTF8",
}
_IDLE_MAX = 8  # connections kept
_QUERY_CANCELED = "57014"
_CANCEL_S = 5.0
_CHUNKS_SINCE, _CHUNK_ROWS = 170000, 1024  # of libpq
_ROW_BYTES = 8  # of a value, at least
_ROWS = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_CHUNK}
_TIMER_S = 0.5  # the server's clock and ours
_SQL_CLASSES = frozenset(
    ["21", "22", "23", "24", "26", "2B", "33", "34", "38", "39", "3D", "3F", "42", "44", "54", "0A"]
)


class Interrupted(SourceError):
    """PostgreSQL ended the statement before its end: by our time limit, or because it was told to."""


class Unreachable(SourceError):
    """The server is not there, or lets nobody in."""


class Sessions:
    """A small pool. A connection that broke is not lent again."""

    def __init__(self, url: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings` hold for all of them, besides those that every connection has."""
        self._given = _understood(url)
        self._settings = {**_PINNED, **(settings or {})}
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def open(self, **more: str) -> Connection:
        """A connection of one's own, in autocommit."""
        options = " ".join([str(self._given.get("options", "")), *(f"-c {k}={v}" for k, v in self._settings.items())])
        given: dict[str, Any] = {"application_name": "headwater", **self._given, "options": options.strip(), **more}
        try:
            db = psycopg.connect(**given, autocommit=True)
        except psycopg.Error as error:
            raise Unreachable(
                f"PostgreSQL could not be reached: {_words(error)}",
                hint="check host, port, database, user and password of the address",
            ) from None
        db.prepare_threshold = None
        return db

    @contextlib.contextmanager
    def lent(self) -> Iterator[Connection]:
        """Errors come out as ours; no transaction stays open."""
        db = self._taken()
        try:
            with speaking():
                yield db
        finally:
            self._return(db)

    @contextlib.contextmanager
    def reading(self, *relations: str, cancellation: Cancellation | None = None) -> Iterator[Connection]:
        """Inside one snapshot, read only. `relations` are locked before it is taken: to a snapshot that is older than
        a TRUNCATE or a rewrite the table would look empty. What row-level security would hide from us is refused. The
        cancellation, where there is one, ends what runs."""
        with self.lent() as db, interruptible(db, cancellation):
            db.execute("; ".join(_begun(relations, cancellation)).encode())
            yield db

    @contextlib.contextmanager
    def reading_from(self, relation: str, sql: str) -> Iterator[tuple[Connection, Any]]:
        """As `reading`, with the one row that a first question is answered with, in the same round trip."""
        with self.lent() as db:
            cursor = db.execute("; ".join([*_begun([relation]), sql]).encode())
            while cursor.nextset():
                pass
            yield db, cursor.fetchone()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _taken(self) -> Connection:
        with self._lock:
            if self._closed:
                raise SourceError("the source is closed")
            while self._idle:
                db = self._idle.pop()
                if not db.closed and not db.broken:
                    return db
        return self.open()

    def _return(self, db: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            if db.info.transaction_status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN):
                db.execute("ROLLBACK")
        with self._lock:
            idle = db.info.transaction_status == pq.TransactionStatus.IDLE
            if idle and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(db)
                return
        db.close()


def _begun(relations: Sequence[str], cancellation: Cancellation | None = None) -> Iterator[str]:
    yield "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    yield "SET LOCAL row_security = off"
    if cancellation is not None:
        yield _time_limit(cancellation)
    if relations:
        yield f"LOCK TABLE {', '.join(relations)} IN ACCESS SHARE MODE"


def limit_time(db: Connection, cancellation: Cancellation | None) -> None:
    """For every statement in this transaction from here on."""
    if cancellation is not None:
        db.execute(_time_limit(cancellation).encode())


def _time_limit(cancellation: Cancellation) -> str:
    return f"SET LOCAL statement_timeout = {max(1, int(cancellation.left_s * 1000))}"


@contextlib.contextmanager
def interruptible(db: Connection, cancellation: Cancellation | None) -> Iterator[None]:
    """A connection that was told to end a statement may hear of it late, at another one: it is not lent again."""
    if cancellation is None:
        yield
        return

    def stop() -> None:
        threading.Thread(target=_stop, args=(db,), name="headwater-cancel", daemon=True).start()

    try:
        with cancellation.stopping(stop):
            yield
    except Interrupted as interrupted:
        db.close()
        cancellation.check()
        raise (cancellation.too_slow() if cancellation.left_s < _TIMER_S else interrupted) from None
    finally:
        if cancellation.is_cancelled:
            db.close()


def _stop(db: Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        db.cancel_safe(timeout=_CANCEL_S)


def answered(
    db: Connection,
    sql: str,
    params: Sequence[Any] = (),
    types: Callable[[Connection], Types] = lambda _: BUILT_IN,
    cancellation: Cancellation | None = None,
) -> tuple[tuple[str, ...], list[Row]]:
    """The columns and rows of a query with `$1` parameters. `types` are asked for where PostgreSQL's own do not do."""
    with speaking(sql):
        names, oids, columns = _collected(db, sql, params, cancellation or Cancellation())
    known = BUILT_IN if all(map(BUILT_IN.knows, oids)) else types(db)
    parsers = [known.parser(oid) for oid in oids]
    parsed = [
        [None if text is None else parse(text) for text in column]
        for parse, column in zip(parsers, columns[1:], strict=True)
    ]
    rows: list[Row] = list(zip(*parsed, strict=True)) if parsed else [()] * len(columns[0])
    return names, rows


def _collected(
    db: Connection, sql: str, params: Sequence[Any], cancellation: Cancellation
) -> tuple[tuple[str, ...], list[int], list[list[Any]]]:
    """The names and types of the columns, and what is in them, behind one that only counts the rows. An answer that
    turns out too large is not read to its end, and the connection is of no more use."""
    names: tuple[str, ...] = ()
    oids, columns, taken = list[int](), list[list[Any]](), 0
    for result in _results(db, sql, params):
        if result.status not in _ROWS:
            db.close()
            raise SqlError("expected a query, found a statement that returns no rows", sql=sql)
        fields = range(result.nfields)
        if not columns:
            names = tuple((result.fname(n) or b"").decode() for n in fields)
            oids, columns = [result.ftype(n) for n in fields], [[] for _ in range(result.nfields + 1)]
        columns[0] += [None] * result.ntuples
        for n in fields:
            values = [result.get_value(row, n) for row in range(result.ntuples)]
            taken += _ROW_BYTES * len(values) + sum(map(len, filter(None, values)))
            columns[n + 1] += values
        if taken > cancellation.bytes_max:
            db.close()
            cancellation.check_size(taken)
    return names, oids, columns


def _results(db: Connection, sql: str, params: Sequence[Any]) -> Iterator[Any]:
    """As they come, some rows at a time: so many as fit into memory are never gathered before they are counted."""
    pgconn = db.pgconn
    pgconn.send_query_params(sql.encode(), [written(value) for value in params] or None)
    if pq.version() >= _CHUNKS_SINCE:
        pgconn.set_chunked_rows_mode(_CHUNK_ROWS)
    else:
        pgconn.set_single_row_mode()
    while pgconn.flush():
        _wait(pgconn, select.POLLOUT)
    while (result := _awaited(pgconn)) is not None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            while _awaited(pgconn) is not None:
                pass
            raise psycopg.errors.error_from_result(result)
        yield result


def _awaited(pgconn: Any) -> Any:
    while pgconn.is_busy():
        _wait(pgconn, select.POLLIN)
        pgconn.consume_input()
    return pgconn.get_result()


def _wait(pgconn: Any, event: int) -> None:
    waiting = select.poll()
    waiting.register(pgconn.socket, event)
    waiting.poll()


def alone(db: Connection, sql: str) -> Any:
    """The result of one statement. What somebody put behind a semicolon is refused, and not run: by the protocol that
    psycopg speaks where there are parameters."""
    with speaking(sql):
        result = db.pgconn.exec_params(sql.encode(), None)
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise psycopg.errors.error_from_result(result)
    return result


def told(db: Connection, sql: str, params: Sequence[Any] = ()) -> None:
    """One statement, with `$1` parameters."""
    _executed(db, sql, params)


def _executed(db: Connection, sql: str, params: Sequence[Any]) -> Any:
    cursor = psycopg.RawCursor(db)
    with speaking(sql):
        cursor.execute(sql.encode(), [_Given(written(value)) for value in params] or None)
    return cursor.pgresult


class _Given:
    """A parameter as text of no declared type: the server knows which it wants."""

    __slots__ = ("text",)

    def __init__(self, text: bytes | None) -> None:
        self.text = text


class _GivenDumper(psycopg.adapt.Dumper):
    oid = 0

    def dump(self, obj: _Given) -> bytes | None:
        return obj.text


psycopg.adapters.register_dumper(_Given, _GivenDumper)


@contextlib.contextmanager
def speaking(sql: str | None = None) -> Iterator[None]:
    """PostgreSQL's errors as ours: about the statement where one is given and it is to blame, else about the source."""
    try:
        yield
    except HeadwaterError:
        raise
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if sql is not None and (state[:2] in _SQL_CLASSES or state == "25006"):
            raise SqlError(_words(error), sql=sql, at=_place(error, sql), hint=error.diag.message_hint) from None
        kind = Interrupted if state == _QUERY_CANCELED else SourceError
        raise kind(f"PostgreSQL said: {_words(error)}", hint=error.diag.message_hint) from None


def _words(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip() or type(error).__name__


def _place(error: psycopg.Error, sql: str) -> tuple[int, int] | None:
    place = error.diag.statement_position
    if place is None or not 0 < int(place) <= len(sql):
        return None
    start = int(place) - 1
    length = next((n for n, letter in enumerate(sql[start:]) if not (letter.isalnum() or letter == "_")), len(sql))
    return start, start + max(1, length)


def _understood(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.Error as error:
        raise SourceError(
            f"the address cannot be parsed: {_words(error)}",
            hint="use postgresql://user:password@host:5432/database, as for psql",
        ) from None
