"""The ASGI application: the WebSocket, a few looks at the pipeline, and the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

import headwater.client
from headwater.gateway.server import Server
from headwater.gateway.status import Rate, status
from headwater.gateway.web.admission import Admission, unavailable
from headwater.gateway.web.origins import Allowed
from headwater.gateway.web.socket import Shared, Socket
from headwater.model.errors import HeadwaterError, ProtocolError, SqlError
from headwater.model.limits import DEFAULT, Limits
from headwater.model.value import Value
from headwater.protocol.bounds import excess
from headwater.protocol.messages import Subscribe
from headwater.protocol.values import from_wire

_PAGE = Path(__file__).parents[1] / "static"
_CLIENT = Path(next(iter(headwater.client.__path__))) / "web"
_LOOPBACK = Allowed()


def make_app(server: Server, extra: tuple[BaseRoute, ...] = (), allowed: Allowed = _LOOPBACK) -> Starlette:
    """`extra` routes are the demo's; `allowed` are the hosts and origins it answers to."""
    shared, rate = Shared(server), Rate()

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await Socket(websocket, server, shared).run()

    async def health(request: Request) -> Response:
        seen = status(server)
        ok = seen["failure"] is None
        told = {name: seen[name] for name in ("runner", "failure", "lag_ms", "source_lag_bytes")}
        return JSONResponse({"ok": ok, **told}, 200 if ok else 503)

    async def state(request: Request) -> Response:
        return JSONResponse(status(server, rate))

    async def position(request: Request) -> Response:
        return await answered(lambda: {"position": server.pipeline.source.position()})

    async def explain(request: Request) -> Response:
        sql, params = request.query_params.get("sql", ""), request.query_params.get("params", "[]")
        analyze = request.query_params.get("analyze") == "1"
        limits = server.pipeline.limits
        if shared.explains >= limits.explains_max:
            return unavailable(f"{shared.explains} queries are being explained already", limits.retry_ms)
        shared.explains += 1
        try:
            return await answered(lambda: {"text": server.explain(sql, params_from_json(params, limits), analyze)})
        finally:
            shared.explains -= 1

    async def page(request: Request) -> Response:
        return FileResponse(_PAGE / "index.html")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/health", health),
            Route("/v1/status", state),
            Route("/v1/position", position),
            Route("/v1/explain", explain),
            WebSocketRoute("/v1/ws", socket),
            *extra,
            Mount("/static", StaticFiles(directory=_PAGE)),
            Mount("/client", StaticFiles(directory=_CLIENT)),
        ],
        middleware=[Middleware(Admission, allowed=allowed)],
        lifespan=_lifespan(server, shared),
    )


def params_from_json(text: str, limits: Limits = DEFAULT) -> list[Value] | dict[str, Value]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict | list):
        raise ProtocolError(f"expected params as a JSON list or object, found {text[:200]!r}")
    refused = excess(Subscribe("", "", given), len(text), limits)
    if refused is not None:
        raise refused
    if isinstance(given, dict):
        return {name: from_wire(value) for name, value in given.items()}
    return [from_wire(value) for value in given]


async def answered(answer: Callable[[], dict[str, Any]]) -> Response:
    try:
        return JSONResponse(await asyncio.to_thread(answer))
    except HeadwaterError as error:
        at = error.at if isinstance(error, SqlError) else None
        body = {"code": error.code, "message": error.message, "hint": error.hint, "at": at}
        return JSONResponse({"error": body}, 400)


def _lifespan(server: Server, shared: Shared) -> Any:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(server.close)
        shared.workers.close()

    return lifespan
