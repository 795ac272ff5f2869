"""The ASGI application: its routes, its static files and its middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from headwater.gateway.server import Server
from headwater.gateway.web.admission import Admission
from headwater.gateway.web.endpoints import Endpoints
from headwater.gateway.web.gateway_state import GatewayState
from headwater.gateway.web.origins import Allowed

_PAGE = Path(__file__).parents[1] / "static"
_CLIENT = Path(str(files("headwater") / "client" / "web"))  # package data: the gateway imports no client
_LOOPBACK = Allowed()


def make_app(server: Server, extra: tuple[BaseRoute, ...] = (), allowed: Allowed = _LOOPBACK) -> Starlette:
    """`extra` routes are the demo's; `allowed` are the hosts and origins it answers to."""
    shared = GatewayState(server)
    endpoints = Endpoints(server, shared)
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/health", endpoints.health),
            Route("/v1/status", endpoints.status),
            Route("/v1/position", endpoints.position),
            Route("/v1/explain", endpoints.explain),
            WebSocketRoute("/v1/ws", endpoints.socket),
            *extra,
            Mount("/static", StaticFiles(directory=_PAGE)),
            Mount("/client", StaticFiles(directory=_CLIENT)),
        ],
        middleware=[Middleware(Admission, allowed=allowed)],
        lifespan=_lifespan(server, shared),
    )


async def _page(request: Request) -> Response:
    return FileResponse(_PAGE / "index.html")


def _lifespan(server: Server, shared: GatewayState) -> Any:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(server.close)
        shared.workers.close()

    return lifespan
