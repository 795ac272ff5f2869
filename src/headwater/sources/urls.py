"""From the address of a database to its source. Never more than parsing and a choice."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import unquote

from headwater.model.errors import SourceError
from headwater.sources.memory import MemorySource
from headwater.sources.source import Source
from headwater.sources.sqlite import SqliteSource

_named: dict[str, MemorySource] = {}
_lock = threading.Lock()


def open_source(url: str) -> Source:
    """Knows `sqlite:///relative.db`, `sqlite:////absolute.db`, `memory://` and, shared by name, `memory://name`; and
    `postgresql://…` as libpq does."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteSource(Path(unquote(rest[1:])))
    if scheme == "memory" and "://" in url:
        return _memory(rest) if rest else MemorySource()
    if scheme in ("postgresql", "postgres") and "://" in url:
        return _postgres(url)
    raise SourceError(
        f"{url!r} is not the address of a source we know",
        hint="use sqlite:///relative.db, sqlite:////absolute.db, memory://, memory://name or postgresql://host/database",
    )


def _postgres(url: str) -> Source:
    """The driver is asked for only here: who has no PostgreSQL needs none."""
    try:
        from headwater.sources.postgres.origin import PostgresSource
    except ModuleNotFoundError as error:
        raise SourceError(
            f"PostgreSQL needs a driver that is not installed: {error.name}",
            hint="pip install 'headwater[postgres]'",
        ) from None
    return PostgresSource(url)


def _memory(name: str) -> MemorySource:
    with _lock:
        source = _named.get(name)
        if source is None or not source.hold():
            source = _named[name] = MemorySource(name)
        return source
