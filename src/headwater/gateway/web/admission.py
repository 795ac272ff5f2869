"""The ASGI middleware in front of every route and of the WebSocket. It refuses foreign hosts and origins (as
`origins.py` decides) and adds the security headers to every response. It never reads a body.
"""

from __future__ import annotations

import math
from functools import partial

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.gateway.web.limits.bounded_protocols import CROWDED
from headwater.gateway.web.origins import Allowed, Refusal
from headwater.model.errors import LimitExceeded, PermissionDenied
from headwater.model.limits import DEFAULT

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Origin, Sec-Fetch-Site",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Content-Type",
    "Access-Control-Allow-Private-Network": "true",
    "Access-Control-Max-Age": "600",
}


class Admission:
    """`page` is the one path that a link on any website may open: it shows nothing by itself."""

    def __init__(self, app: ASGIApp, *, allowed: Allowed, page: str = "/") -> None:
        self._app, self._allowed, self._page = app, allowed, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        send = partial(self._send, headers.get("origin"), send)
        answer = self._answer(scope, headers)
        return await (answer or self._app)(scope, receive, send)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """What is said here and now; None where the request goes on to its route."""
        if scope.get("state", {}).get(CROWDED):
            return unavailable("too many connections from your address", DEFAULT.retry_ms)
        is_http = scope["type"] == "http"
        to_page = is_http and scope["path"] == self._page and scope["method"] in ("GET", "HEAD")
        refused = self._allowed.refusal(headers, to_page=to_page)
        if refused is not None:
            return _refused(refused)
        is_preflight = is_http and scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        return Response(status_code=204, headers=_PREFLIGHT) if is_preflight else None

    async def _send(self, origin: str | None, send: Send, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            if origin in self._allowed.origins:
                headers["Access-Control-Allow-Origin"] = origin
        await send(message)


def unavailable(message: str, retry_ms: int) -> Response:
    """Not now: the answer says when. `Retry-After` is whole seconds."""
    error = {"code": LimitExceeded.code, "message": message, "retry_after_ms": retry_ms}
    headers = {"Retry-After": str(math.ceil(retry_ms / 1000)), "Connection": "close"}
    return JSONResponse({"error": error}, 503, headers)


def _refused(refusal: Refusal) -> Response:
    error = {"code": PermissionDenied.code, "message": refusal.message, "hint": refusal.hint}
    return JSONResponse({"error": error}, refusal.status, {"Connection": "close"})
