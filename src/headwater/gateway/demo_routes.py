"""The routes that only the demo has: its example queries and the rate of its traffic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route


class Traffic(Protocol):
    """Something that writes to the demo's database at a rate, in transactions per second."""

    rate: float


def demo_routes(traffic: Traffic, examples: Sequence[dict[str, Any]]) -> tuple[BaseRoute, ...]:
    async def queries(request: Request) -> Response:
        return JSONResponse(list(examples))

    async def rate(request: Request) -> Response:
        if request.method == "POST":
            try:
                traffic.rate = float(json.loads(await request.body())["rate"])
            except (ValueError, KeyError, TypeError):
                return JSONResponse({"error": 'expected {"rate": number}'}, 400)
        return JSONResponse({"rate": traffic.rate})

    return (Route("/demo/queries", queries), Route("/demo/rate", rate, methods=["GET", "POST"]))
