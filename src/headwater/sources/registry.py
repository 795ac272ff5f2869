"""From the address of a database to its source. Every database that can be read is listed here, and only here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    return _kind(url).source(url)


def open_doctor(url: str, scope: DoctorScope = EVERYTHING) -> Doctor:
    """For the same addresses, but those in memory, where nothing can be wrong. No file is created."""
    doctor = _kind(url).doctor
    if doctor is None:
        raise _unknown(url)
    return doctor(url, scope)


def _kind(url: str) -> SourceKind:
    scheme, separator, _ = url.partition("://")
    kind = KINDS.get(scheme)
    if kind is None or not separator:
        raise _unknown(url)
    return kind


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
        f"{shown(url)!r} is not the address of a database that Headwater can read",
        hint="use sqlite:///relative.db, sqlite:////absolute.db, memory://, memory://name or postgresql://host/database",
    )


@dataclass(frozen=True, slots=True)
class SourceKind:
    """How addresses of one scheme are opened. There is no doctor for tables in memory."""

    source: Callable[[str], Source]
    doctor: Callable[[str, DoctorScope], Doctor] | None


def _sqlite(url: str) -> Source:
    return SqliteSource(_path(url))


def _sqlite_doctor(url: str, scope: DoctorScope) -> Doctor:
    return SqliteDoctor(_path(url), scope)


def _path(url: str) -> Path:
    _, _, rest = url.partition("://")
    if not rest.startswith("/") or len(rest) < 2:
        raise _unknown(url)
    return Path(unquote(rest[1:]))


def _memory(url: str) -> Source:
    _, _, name = url.partition("://")
    if not name:
        return MemorySource()
    with _lock:
        source = _named.get(name)
        if source is None or not source.hold():
            source = _named[name] = MemorySource(name)
        return source


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


_POSTGRES = SourceKind(_postgres, _postgres_doctor)
KINDS = {
    "sqlite": SourceKind(_sqlite, _sqlite_doctor),
    "memory": SourceKind(_memory, None),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}
