"""Headwater: live SQL on the database you already have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.emission import Diff, Emission, Result, RowChange, State, Swap, apply
from headwater.model.errors import (
    Drift,
    HeadwaterError,
    LimitExceeded,
    PermissionDenied,
    Resync,
    SourceError,
    SqlError,
    UnsupportedQuery,
)

if TYPE_CHECKING:
    from headwater.client.aio import AsyncDatabase, AsyncLiveResult
    from headwater.client.connecting import aconnect, connect
    from headwater.client.database import Database
    from headwater.client.live import LiveResult

_LATE = {
    "connect": "headwater.client.connecting",
    "aconnect": "headwater.client.connecting",
    "Database": "headwater.client.database",
    "LiveResult": "headwater.client.live",
    "AsyncDatabase": "headwater.client.aio",
    "AsyncLiveResult": "headwater.client.aio",
}

__all__ = [
    "AsyncDatabase",
    "AsyncLiveResult",
    "Database",
    "Diff",
    "Drift",
    "Emission",
    "HeadwaterError",
    "LimitExceeded",
    "LiveResult",
    "PermissionDenied",
    "Result",
    "Resync",
    "RowChange",
    "SourceError",
    "SqlError",
    "State",
    "Swap",
    "UnsupportedQuery",
    "aconnect",
    "apply",
    "connect",
]


def __getattr__(name: str) -> Any:
    """The client is imported when it is asked for: a cell that imports one module of ours need not load a gateway."""
    if name not in _LATE:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATE[name]), name)
