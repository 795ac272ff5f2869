"""The routes that only the demo has: its example queries and the rate of its traffic."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

_BODY_BYTES_MAX = 1024


class RatedTraffic(Protocol):
    """Something that writes to the demo's database at a rate, in transactions per second."""

    rate: float


def demo_routes(traffic: RatedTraffic, examples: Sequence[dict[str, Any]]) -> tuple[BaseRoute, ...]:
    async def queries(request: Request) -> Response:
        return JSONResponse(list(examples))

    async def rate(request: Request) -> Response:
        if request.method == "POST":
            try:
                traffic.rate = _rate(await _body(request))
            except (ValueError, KeyError, TypeError, RecursionError):
                return JSONResponse({"error": 'expected {"rate": number}'}, 400)
        return JSONResponse({"rate": traffic.rate})

    return (Route("/demo/queries", queries), Route("/demo/rate", rate, methods=["GET", "POST"]))


async def _body(request: Request) -> bytes:
    """A rate takes a few bytes; a longer body is not read to the end."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            raise ValueError(f"expected at most {_BODY_BYTES_MAX} bytes")
    return body


def _rate(body: bytes) -> float:
    rate = float(json.loads(body)["rate"])
    if not math.isfinite(rate):
        raise ValueError(f"expected a number, found {rate}")
    return rate
