"""From the address of a database to its source. Never more than parsing and a choice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

from headwater.model.addresses import shown as shown
from headwater.model.errors import SourceError
from headwater.sources.doctor import EVERYTHING, Doctor, DoctorScope
from headwater.sources.source import Source
from headwater.sources.sqlite.doctor import SqliteDoctor
from headwater.sources.sqlite.memory import MemorySource
from headwater.sources.sqlite.source import SqliteSource

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
    raise _unknown(url)


def open_doctor(url: str, scope: DoctorScope = EVERYTHING) -> Doctor:
    """For the same addresses, but those in memory, where nothing can be amiss. No file is created."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteDoctor(Path(unquote(rest[1:])), scope)
    if scheme in ("postgresql", "postgres") and "://" in url:
        return _postgres_doctor(url, scope)
    raise _unknown(url)


def must_exist(url: str) -> None:
    """Refuses a file that is not there: opened, it would be created, and a mistyped name with it."""
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite" or len(rest) < 2:
        return
    path = Path(unquote(rest[1:]))
    if not path.exists():
        raise SourceError(f"no such file: {path}", hint=_nearest(path))


def _nearest(path: Path) -> str:
    """A file of nearly that name, beside it; or how a path is written."""
    parent = path.parent
    names = [each.name for each in parent.iterdir() if each.is_file()] if parent.is_dir() else []
    close = get_close_matches(path.name, names, n=1)
    if close:
        return f"did you mean sqlite:///{parent / close[0]}?"
    return "sqlite:///relative.db is relative to this directory, sqlite:////absolute.db is not"


def _unknown(url: str) -> SourceError:
    return SourceError(
        f"{shown(url)!r} is not the address of a source we know",
        hint="use sqlite:///relative.db, sqlite:////absolute.db, memory://, memory://name or postgresql://host/database",
    )


def _postgres(url: str) -> Source:
    """The driver is asked for only here: who has no PostgreSQL needs none."""
    with _driver():
        from headwater.sources.postgres.source import PostgresSource
    return PostgresSource(url)


def _postgres_doctor(url: str, scope: DoctorScope) -> Doctor:
    with _driver():
        from headwater.sources.postgres.doctor.doctor import PostgresDoctor
    return PostgresDoctor(url, scope)


@contextmanager
def _driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise SourceError(
            f"PostgreSQL needs a driver that is not installed: {error.name}",
            hint="pip install 'headwater[postgres]'",
        ) from None


def _memory(name: str) -> MemorySource:
    with _lock:
        source = _named.get(name)
        if source is None or not source.hold():
            source = _named[name] = MemorySource(name)
        return source
