"""The demo's shop as a SQLite file: made once, from a seed, then opened to trade in it."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from pathlib import Path

from headwater.demo import shop

_BUSY_TIMEOUT_S = 10.0


def create_shop(
    path: str | Path, *, seed: int = 7, now: dt.datetime | None = None, size: shop.Size = shop.SIZE
) -> Path:
    """A new shop at `path`, in WAL mode. The same seed and time give the same rows; a file that is there is kept."""
    path = Path(path)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(open_shop(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        shop.create(db, seed=seed, now=now or shop.EPOCH, size=size)
    return path


def open_shop(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    return db
