"""Is this SQLite file ready to be live? It looks, creates no file, and takes no lock that a writer would wait for."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.model.errors import HeadwaterError, SourceError
from headwater.sources.doctor import EVERYTHING, DoctorScope, Finding, Severity
from headwater.sources.sqlite.captures import read_captures
from headwater.sources.sqlite.questions.log_position import is_installed
from headwater.sources.sqlite.questions.question import source_error
from headwater.sources.sqlite.schema import capturable, table_names
from headwater.sources.sqlite.schema_changes import outdated_captures
from headwater.sources.sqlite.triggers import LOG

VERSION_MIN = (3, 37, 0)  # STRICT tables, and the PRAGMA that lists tables
_BUSY_MS = 5_000
_WAITING_MAX = 1_000_000  # rows of our log: they go when a server takes them over


class SqliteDoctor:
    def __init__(self, path: Path, scope: DoctorScope = EVERYTHING) -> None:
        self._path, self._scope = path.absolute(), scope
        if scope.role is not None:
            raise SourceError("SQLite has no roles", hint="leave out --role")
        if not self._path.is_file():
            raise SourceError(f"there is no file {self._path}", hint="check the path: sqlite:///relative, ////absolute")
        try:
            self._db = sqlite3.connect(f"{self._path.as_uri()}?mode=rw", uri=True, isolation_level=None)
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            raise source_error(error, f"{self._path} cannot be opened as an SQLite database") from error

    def examine(self) -> tuple[Finding, ...]:
        checks: tuple[Callable[[], Iterator[Finding]], ...] = (
            self._version,
            self._writable,
            self._journal,
            self._tables,
            self._triggers,
            self._waiting,
        )
        try:
            return tuple(finding for check in checks for finding in check())
        except sqlite3.Error as error:
            raise source_error(error, f"{self._path} cannot be read") from error

    def apply_fix(self, finding: Finding) -> None:
        try:
            self._db.execute(finding.fix)
        except sqlite3.Error as error:
            raise source_error(error, f"{self._path} cannot be changed") from error

    def close(self) -> None:
        self._db.close()

    def _version(self) -> Iterator[Finding]:
        needed = f"SQLite {'.'.join(map(str, VERSION_MIN))} or later, in this Python"
        old = sqlite3.sqlite_version_info < VERSION_MIN
        then = "use a Python built with a newer SQLite" if old else ""
        yield Finding("version", needed, sqlite3.sqlite_version, Severity.BAD if old else Severity.FINE, then=then)

    def _writable(self) -> Iterator[Finding]:
        """The directory too: a commit makes files beside the database."""
        for subject, path in (("file", self._path), ("directory", self._path.parent)):
            if os.access(path, os.W_OK):
                yield Finding(subject, "writable, for Headwater's triggers and their log", "writable")
            else:
                then = f"chmod u+w {path}"
                yield Finding(
                    subject, "writable, for Headwater's triggers and their log", "read-only", Severity.BAD, then=then
                )

    def _journal(self) -> Iterator[Finding]:
        (mode,) = self._db.execute("PRAGMA journal_mode").fetchone()
        needed = "wal: transactions stay separate, readers never wait"
        if mode == "wal":
            yield Finding("journal_mode", needed, mode)
        else:
            found = f"{mode}: commits in quick succession are merged into one transaction"
            yield Finding("journal_mode", needed, found, Severity.NOTE, "PRAGMA journal_mode = WAL")

    def _tables(self) -> Iterator[Finding]:
        names = list(self._scope.tables) or table_names(self._db)
        refused = [finding for name in names for finding in self._refused(name)]
        ready = f"{len(names) - len(refused)} of {len(names)} ready"
        yield Finding("tables", "changes can be captured", ready)
        yield from refused

    def _refused(self, name: str) -> Iterator[Finding]:
        try:
            capturable(self._db, name)
        except HeadwaterError as error:
            state = Severity.BAD if self._scope.tables else Severity.NOTE
            yield Finding(f"table {name}", "capturable", error.message, state, then=error.hint or "")

    def _triggers(self) -> Iterator[Finding]:
        needed = "up to date with their tables"
        living = [one.shape.name for one in read_captures(self._db).values() if not one.over]
        behind = [one.shape.name for one in outdated_captures(self._db)]
        if behind:
            found = f"behind the schema of {', '.join(sorted(behind))}"
            then = "start Headwater: it rebuilds them"
            yield Finding("triggers", needed, found, Severity.NOTE, then=then)
        elif living:
            yield Finding("triggers", needed, f"on {', '.join(sorted(living))}")
        else:
            yield Finding("triggers", needed, "none: created with the first live query")

    def _waiting(self) -> Iterator[Finding]:
        if not is_installed(self._db):
            return
        first, last = self._db.execute(f"SELECT min(seq), max(seq) FROM {LOG}").fetchone()
        count = last - first + 1 if last is not None else 0
        needed = "read by a server, then removed"
        if count <= _WAITING_MAX:
            yield Finding(LOG, needed, f"{count} rows")
        else:
            then = "start Headwater, or run headwater detach if it is no longer used"
            yield Finding(LOG, needed, f"{count} rows wait for a server", Severity.NOTE, then=then)
