"""Runs the ASGI application with uvicorn on a loopback address."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from headwater.gateway.web.limits.bounded_protocols import Bounds
from headwater.gateway.web.origins import is_loopback
from headwater.model.errors import HeadwaterError
from headwater.model.limits import DEFAULT, Limits
from headwater.runtime.garbage import collect_rarely

_FILES = 65_536
_UNREAD_MS_MAX = 60_000


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Beyond loopback a gateway needs auth, which it does not have yet."""
    if host != "localhost" and not is_loopback(host):
        raise HeadwaterError(
            f"refusing to listen on {host}: the gateway has no authentication yet, so it listens on loopback only",
            hint="use --host 127.0.0.1 and put a proxy with authentication in front",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # who takes nothing of what was sent, not even the end, is let go
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS_MAX)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise HeadwaterError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint="choose another --port; 0 picks a free one",
        ) from None
    return bound


def address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(
    app: Starlette, bound: socket.socket, limits: Limits = DEFAULT, *, on_started: Callable[[], None] | None = None
) -> None:
    """Until interrupted. The process is ours."""
    collect_rarely()
    _raise_files_limit()
    server = _server(app, Bounds.of(limits))
    if on_started is not None:
        threading.Thread(target=_when_started, args=(server, on_started), daemon=True).start()
    server.run(sockets=[bound])


class Background:
    """The same on a thread, for tests and notebooks."""

    def __init__(self, app: Starlette, bound: socket.socket, limits: Limits = DEFAULT) -> None:
        self.bounds = Bounds.of(limits)
        self._server = _server(app, self.bounds)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self.url = address(bound)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [bound]}, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.005)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


def _server(app: Starlette, bounds: Bounds) -> uvicorn.Server:
    """No header says who a client is: any program on this machine could write one."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            http=bounds.http(),
            ws=bounds.websocket(),
            ws_max_size=bounds.limits.message_bytes_max,
            proxy_headers=False,
            ws_ping_timeout=None,  # an answer may stand behind messages that wait for their turn; TCP tells who is gone
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=2,
        )
    )


def _raise_files_limit() -> None:
    """A socket is a file, and many systems allow a process a thousand where nobody asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _when_started(server: uvicorn.Server, call: Callable[[], None]) -> None:
    while not server.started and not server.should_exit:
        threading.Event().wait(0.01)
    if server.started:
        call()
