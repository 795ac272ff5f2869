"""The HTTP and WebSocket endpoints of a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from headwater.gateway.server import Server
from headwater.gateway.status import Rate, status
from headwater.gateway.web.admission import unavailable
from headwater.gateway.web.gateway_state import GatewayState
from headwater.gateway.web.socket import Socket
from headwater.model.errors import HeadwaterError, ProtocolError, SqlError
from headwater.model.limits import DEFAULT, Limits
from headwater.model.value import Value
from headwater.protocol.bounds import excess
from headwater.protocol.messages import Subscribe
from headwater.protocol.values import from_wire


class Endpoints:
    def __init__(self, server: Server, shared: GatewayState) -> None:
        self._server, self._shared, self._rate = server, shared, Rate()

    async def socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        await Socket(websocket, self._server, self._shared).run()

    async def health(self, request: Request) -> Response:
        seen = status(self._server)
        ok = seen["failure"] is None
        told = {name: seen[name] for name in ("runner", "failure", "lag_ms", "source_lag_bytes")}
        return JSONResponse({"ok": ok, **told}, 200 if ok else 503)

    async def status(self, request: Request) -> Response:
        return JSONResponse(status(self._server, self._rate))

    async def position(self, request: Request) -> Response:
        return await answered(lambda: {"position": self._server.pipeline.source.position()})

    async def explain(self, request: Request) -> Response:
        sql, params = request.query_params.get("sql", ""), request.query_params.get("params", "[]")
        analyze = request.query_params.get("analyze") == "1"
        limits = self._server.pipeline.limits
        if self._shared.explains >= limits.explains_max:
            return unavailable(f"too many EXPLAINs: {self._shared.explains} are running", limits.retry_ms)
        self._shared.explains += 1
        try:
            return await answered(
                lambda: {"text": self._server.explain(sql, params_from_json(params, limits), analyze)}
            )
        finally:
            self._shared.explains -= 1


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
