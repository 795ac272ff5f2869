"""The state of the pipeline, for the page, for `GET /v1/status` and for `Database.status()`. It changes nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from importlib.metadata import version
from typing import Any

from headwater.gateway.hub.cell_progress import CellProgress
from headwater.gateway.server import Server

_SPAN_S = 5.0


class Rate:
    """Events per second over the last few seconds, from a total that only grows."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def at(self, total: int, now: float) -> float:
        with self._lock:
            self._seen.append((now, total))
            while self._seen[0][0] < now - _SPAN_S:
                self._seen.popleft()
            (first, before), (last, after) = self._seen[0], self._seen[-1]
            return (after - before) / (last - first) if last > first else 0.0


def status(server: Server, rate: Rate | None = None) -> dict[str, Any]:
    pipeline, hub, health = server.pipeline, server.hub, server.monitor.look()
    cells = [_cell(number, cell) for number, cell in enumerate(hub.cells)]
    total = pipeline.capture.transactions
    return {
        "runner": pipeline.runner.name,
        "source": server.url,
        "version": version("headwater"),
        "grid": str(pipeline.grid),
        "cells": cells,
        "epoch": max((cell["epoch"] for cell in cells), default=0),
        "transactions": total,
        "transactions_per_s": round(rate.at(total, time.monotonic()), 2) if rate else None,
        "lag_ms": round(health.lag_ms, 2),
        "subscriptions": hub.subscriptions,
        "windows": hub.windows,
        "templates": pipeline.templates,
        "position": pipeline.capture.position,
        "log_offset": pipeline.log_offset,
        "source_lag_bytes": pipeline.source_lag_bytes,
        "failure": health.failure,
    }


def _cell(number: int, cell: CellProgress) -> dict[str, Any]:
    report = cell.report
    return {
        "cell": number,
        "offset": cell.to,
        "position": cell.position,
        "epoch": report.epoch if report else 0,
        "attempt": report.attempt if report else 0,
        "steps": cell.steps,
        "pid": report.pid if report else None,
        "lag_ms": round(cell.lag_ms, 2),
    }
