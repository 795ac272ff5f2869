"""The remote backend: a gateway's WebSocket. It reconnects by itself and resumes every subscription where it stood."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec
import websockets.exceptions
from websockets.sync.client import ClientConnection, connect

from headwater.client.database import Effective, Opened, Params
from headwater.client.session import ClientSession
from headwater.model.errors import (
    HeadwaterError,
    LimitExceeded,
    PermissionDenied,
    ProtocolError,
    SourceError,
    SqlError,
    UnsupportedQuery,
)
from headwater.model.union import Value
from headwater.protocol.emissions import from_message
from headwater.protocol.messages import (
    Await,
    Closed,
    Error,
    FromServer,
    Health,
    Hello,
    Message,
    Progress,
    Ready,
    ResyncMessage,
    Subscribe,
    Subscribed,
    Unsubscribe,
    WireDiff,
    WireResult,
    WireSwap,
    decode_from_server,
    encode_message,
)
from headwater.protocol.values import to_wire

_BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_OPEN_S = 60.0
_SILENCE_S = 30.0
_HTTP_S = 10.0
_ADDRESS_BYTES_MAX = 60_000  # with its headers, what the gateway reads of a request that comes in pieces
_OK = 200
_log = logging.getLogger("headwater.client")


@dataclass(slots=True)
class Asked:
    """A subscription as it was asked for, and what came of it."""

    sql: str
    params: Params
    opened: Opened | None = None
    refused: HeadwaterError | None = None
    settled: threading.Event = field(default_factory=threading.Event)


class Remote:
    def __init__(self, url: str, session: ClientSession, token: str | None = None) -> None:
        self._url, self._session, self._token = url.rstrip("/"), session, token
        self._asked: dict[str, Asked] = {}
        self._lock = threading.Lock()
        self._socket: ClientConnection | None = None
        self._opened = contextlib.ExitStack()
        self._stop = threading.Event()
        self._refused: HeadwaterError | None = None
        self._awaited = -1
        self.reconnects = 0
        self._connect()
        self._thread = threading.Thread(target=self._run, name="headwater-client", daemon=True)
        self._thread.start()

    # — the backend

    def open(self, live_id: str, sql: str, params: Params) -> Opened:
        asked = Asked(sql, params)
        if self._refused is not None:
            raise self._refused
        message = self._subscribe(live_id, asked, resume=False)
        with self._lock:
            self._asked[live_id] = asked
            self._send(message)
        if not asked.settled.wait(_OPEN_S):
            self.drop(live_id, forget=True)
            raise HeadwaterError(f"no answer from {self._url} within {_OPEN_S:.0f} s")
        if asked.refused is not None:
            self._asked.pop(live_id, None)
            raise asked.refused
        assert asked.opened is not None
        return asked.opened

    def drop(self, live_id: str, forget: bool) -> None:
        with self._lock:
            if self._asked.pop(live_id, None) is not None:
                self._send(Unsubscribe(live_id, forget))

    def again(self, live_id: str) -> None:
        with self._lock:
            asked = self._asked.get(live_id)
            if asked is not None:
                self._send(Unsubscribe(live_id))
                self._send(self._subscribe(live_id, asked, resume=False))

    def reach(self, position: int) -> None:
        with self._lock:
            self._awaited = max(position, self._awaited)
            self._send(Await(position))

    def query(self, sql: str, params: Params) -> tuple[tuple[str, ...], list[tuple[Value, ...]], int]:
        self._not_here("query with live=False")

    def execute(self, sql: str, params: Params) -> int:
        self._not_here("execute")

    def executemany(self, sql: str, rows: Iterable[Params]) -> int:
        self._not_here("executemany")

    def transaction(self) -> AbstractContextManager[Any]:
        self._not_here("transaction")

    def position(self) -> int:
        return int(self._got("/v1/position")["position"])

    def explain(self, sql: str, params: Params, analyze: bool) -> str:
        query = urllib.parse.urlencode({"sql": sql, "params": json.dumps(wired(params)), "analyze": int(analyze)})
        if len(query) > _ADDRESS_BYTES_MAX:
            raise LimitExceeded(
                f"the query is too long to be explained through a gateway: {len(query):,} bytes as a URL, "
                f"at most {_ADDRESS_BYTES_MAX:,}",
                hint="explain it where the database is: headwater explain",
            )
        return str(self._got(f"/v1/explain?{query}", sql)["text"])

    def status(self) -> dict[str, Any]:
        return self._got("/v1/status")

    def effective(self, sql: str, params: Params) -> Effective:
        self._not_here("verify")

    def close(self) -> None:
        self._stop.set()
        self._hang_up()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    # — the socket

    def _connect(self) -> None:
        """Says hello, then asks again for all that was asked for before: nobody else speaks in between."""
        path = "" if self._url.endswith("/v1/ws") else "/v1/ws"
        try:
            socket = self._opened.enter_context(
                connect(self._url + path, max_size=None, open_timeout=10, close_timeout=1)
            )
        except websockets.exceptions.InvalidStatus as error:
            raise self._turned_away(error.response.status_code, error.response.body or b"") from None
        except (OSError, websockets.exceptions.WebSocketException) as error:
            raise HeadwaterError(
                f"cannot connect to a gateway at {self._url}: {error}", hint="is `headwater serve` running there?"
            ) from None
        with self._lock:
            self._socket = socket
            self._send(Hello(self._token))
            for id, asked in self._asked.items():
                self._send(self._subscribe(id, asked, resume=True))
            if self._awaited >= 0:
                self._send(Await(self._awaited))

    def _turned_away(self, status: int, body: bytes | bytearray, sql: str = "") -> HeadwaterError:
        """Why a request was refused, in the gateway's own words where it is one."""
        try:
            return refusal(msgspec.convert(json.loads(body)["error"], Error), sql)
        except (ValueError, KeyError, TypeError, msgspec.ValidationError):
            return HeadwaterError(
                f"expected a gateway at {self._url}, found a server that answers with status {status}"
            )

    def _run(self) -> None:
        tries = 0
        while not self._stop.is_set():
            try:
                if self._socket is None:
                    self._connect()
                    self.reconnects += 1
                tries = 0
                self._listen()
            except (HeadwaterError, OSError, websockets.exceptions.WebSocketException) as error:
                _log.debug("the connection is gone: %s", error)
                asked_s = (getattr(error, "retry_after_ms", None) or 0) / 1000
            else:
                asked_s = 0.0
            self._socket = None
            self._hang_up()
            if not self._stop.is_set():
                self._session.stale()
                self._stop.wait(max(asked_s, _BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)]))
                tries += 1

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError, websockets.exceptions.WebSocketException):
            self._opened.close()

    def _listen(self) -> None:
        socket = self._socket
        while socket is not None and not self._stop.is_set():
            self._take(decode_from_server(socket.recv(timeout=_SILENCE_S)))

    def _subscribe(self, id: str, asked: Asked, *, resume: bool) -> Subscribe:
        live, given = self._session.lives.get(id), wired(asked.params)
        if not resume or live is None or live.state == "initializing":
            return Subscribe(id, asked.sql, given)
        live.rewind()
        return Subscribe(id, asked.sql, given, resume_seq=live.seq, resume_gen=live.gen)

    def _send(self, message: Message) -> None:
        """What cannot be sent now is said anew when the connection is back."""
        socket = self._socket
        if socket is not None:
            with contextlib.suppress(OSError, websockets.exceptions.WebSocketException):
                socket.send(encode_message(message).decode())

    def _take(self, message: FromServer) -> None:
        match message:
            case Subscribed():
                names = tuple(column.name for column in message.columns)
                self._settle(message.id, Opened(names, message.strategy), None)
                self._session.opened(message.id, names, message.strategy)
            case WireResult() | WireDiff() | WireSwap():
                self._session.emit(message.id, from_message(message))
            case Ready(id, position):
                self._session.ready(id, position)
            case Progress(position):
                self._session.progress(position)
            case Health(failure):
                self._session.health(failure)
            case ResyncMessage(id, reason):
                self._session.resync(id, reason)
            case Closed(id, reason):
                with self._lock:
                    self._asked.pop(id, None)
                self._session.closed(id, reason)
            case Error():
                self._failed(message)
            case _:
                pass

    def _failed(self, error: Error) -> None:
        asked = self._asked.get(error.id or "")
        if error.code == PermissionDenied.code and error.id is None:
            self._unadmitted(error)
        elif error.id is None or asked is None:
            _log.error("error from the gateway: %s", error.message)
        elif error.code == "window_error":
            self._session.failed(error.id, error.message)
        elif asked.settled.is_set():
            self._session.closed(error.id, error.message)
        else:
            self._settle(error.id, None, refusal(error, asked.sql))

    def _unadmitted(self, error: Error) -> None:
        """Asking again would not help: every query is refused, and the connection is not made anew."""
        self._refused = refusal(error, "")
        self._stop.set()
        for id, asked in list(self._asked.items()):
            if asked.settled.is_set():
                self._session.closed(id, error.message)
            self._settle(id, None, self._refused)

    def _settle(self, id: str, opened: Opened | None, refused: HeadwaterError | None) -> None:
        asked = self._asked.get(id)
        if asked is not None:
            asked.opened, asked.refused = opened, refused
            asked.settled.set()

    def _got(self, path: str, sql: str = "") -> dict[str, Any]:
        base = "http" + self._url.removeprefix("ws").removesuffix("/v1/ws")
        try:
            status, body = _fetched(base + path)
            if status == _OK:
                return dict(json.loads(body))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise HeadwaterError(f"no answer from {base}: {error or type(error).__name__}") from None
        raise self._turned_away(status, body, sql)

    def _not_here(self, what: str) -> NoReturn:
        raise HeadwaterError(
            f"{what} needs a connection to the database, and this is one to a gateway",
            hint="write through your own connection; live.wait(position) still works",
        )


def _fetched(url: str) -> tuple[int, bytes]:
    """The status and the body, also of a refusal."""
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_S) as response:
            return _OK, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def wired(params: Params) -> Any:
    given: Any
    if isinstance(params, Mapping):
        given = {name: to_wire(value) for name, value in params.items()}
    else:
        given = [to_wire(value) for value in params]
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise SqlError("a parameter is not valid text: it contains a lone surrogate") from None
    return given


def refusal(error: Error, sql: str) -> HeadwaterError:
    """The error the gateway met, as the one the caller would have met here."""
    kind = _ERRORS.get(error.code, HeadwaterError)
    if issubclass(kind, SqlError):
        return kind(error.message, sql=sql, at=error.at, hint=error.hint)
    if issubclass(kind, LimitExceeded):
        return kind(error.message, hint=error.hint, retry_after_ms=error.retry_after_ms)
    return kind(error.message, hint=error.hint)


_ERRORS: dict[str, type[HeadwaterError]] = {
    kind.code: kind
    for kind in (SqlError, UnsupportedQuery, SourceError, ProtocolError, PermissionDenied, LimitExceeded)
}
