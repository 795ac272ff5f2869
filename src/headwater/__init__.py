"""Headwater: live SQL on the database you already have."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.client.aio import AsyncDatabase, AsyncLiveResult
    from headwater.client.connect import aconnect, connect
    from headwater.client.database import Database
    from headwater.client.live import LiveResult
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

_LATE = {
    "connect": "headwater.client.connect",
    "aconnect": "headwater.client.connect",
    "Database": "headwater.client.database",
    "LiveResult": "headwater.client.live",
    "AsyncDatabase": "headwater.client.aio",
    "AsyncLiveResult": "headwater.client.aio",
    **dict.fromkeys(("Diff", "Emission", "Result", "RowChange", "State", "Swap", "apply"), "headwater.model.emission"),
    **dict.fromkeys(("Drift", "HeadwaterError", "LimitExceeded", "PermissionDenied"), "headwater.model.errors"),
    **dict.fromkeys(("Resync", "SourceError", "SqlError", "UnsupportedQuery"), "headwater.model.errors"),
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

if os.environ.get("HEADWATER_LOG"):
    from headwater.runtime.log_level import show_logs

    show_logs()


def __getattr__(name: str) -> Any:
    """Each name is imported when it is asked for: a command that prints its help need not load a database engine."""
    if name not in _LATE:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LATE[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
