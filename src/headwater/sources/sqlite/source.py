"""An SQLite database file as a source. Changes come from triggers, so it does not matter which process makes them.

A commit rings the doorbell on the `-wal` file; a slow look beneath catches what does not ring. It never changes the
journal mode of a database it did not create.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from headwater.fs.doorbell import Doorbell
from headwater.model.change import Transaction
from headwater.model.errors import SourceError
from headwater.sources.cancellation import Cancellation
from headwater.sources.look_pace import LookPace
from headwater.sources.source import Answer, Item, Moment, Params, Reads
from headwater.sources.sqlite.base import SqliteBase, SqliteSnapshot, read_log, schema_version
from headwater.sources.sqlite.log_decoder import LogDecoder
from headwater.sources.sqlite.merge_boundaries import Boundaries
from headwater.sources.sqlite.questions.log_position import is_installed, log_position
from headwater.sources.sqlite.questions.moment import SqliteMoment, plain
from headwater.sources.sqlite.questions.pool import QuestionProcesses
from headwater.sources.sqlite.questions.question import source_error
from headwater.sources.sqlite.questions.replies import answer_of, answers_of, reads_of
from headwater.sources.sqlite.read_pin import ReadPins
from headwater.sources.sqlite.schema import text_encoding
from headwater.sources.sqlite.schema_changes import outdated_captures, read_views
from headwater.sources.sqlite.triggers import POSITION
from headwater.sources.sqlite.wal import WalReader

BUSY_TIMEOUT_MS = 30_000
LOOK_MIN_S, LOOK_MAX_S = 0.00005, 0.2  # a ring comes with the write; the commit is visible a little later
LOOK_GROWTH = 1.4
BELL_MIN_S = 0.001  # poll(2) knows nothing shorter
ROWS_MAX = 1 << 16  # of one call of `changes`, but for a transaction that is larger
READERS_MAX = 8  # idle connections kept
_MERGED = (
    "positions {} to {} were committed while Headwater was not running, and the WAL no longer says where "
    "each transaction ended: they are reported as one transaction"
)


class SqliteSource(SqliteBase):
    """`changes` belongs to one thread; everything else may be called from any."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path.absolute()
        self.address: str | None = f"sqlite:///{quote(str(self.path))}"
        digest = hashlib.blake2b(os.fsencode(self.path), digest_size=4).hexdigest()
        self.name = f"{self.path.stem}-{digest}"
        self._readers: list[sqlite3.Connection] = []
        self.questions = QuestionProcesses(self.path)
        self._writer_lock = threading.RLock()
        self._polling, self._listening = threading.Lock(), threading.Lock()
        self._closed = False
        self._writer = self._opened()
        self._file = self._identity()
        self._views = {} if is_installed(self._writer) else read_views(self._writer)  # since our last life, any
        name = POSITION.encode(text_encoding(self._writer))
        self._wal = WalReader(self.path.with_name(self.path.name + "-wal"), name)
        self._pins = ReadPins(self._connect, self._wal)
        self._watch = self._connect()
        self._bell = Doorbell(self._wal.path, self.path)
        self._boundaries, self._pace = Boundaries(), LookPace()
        self._decoding: LogDecoder | None = None
        self._reported = 0
        self._tick_at_s = self._look_at_s = 0.0
        self._looked_version = -2  # all that was committed until then is reported
        self._is_first_look = True
        self._merged: tuple[int, int] | None = None  # positions that may be of several transactions, told as one

    # Changes

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        deadline_s, pause_s, rung = time.monotonic() + timeout_s, LOOK_MIN_S, False
        self._pace.gather(deadline_s - timeout_s, timeout_s)
        while True:
            now_s = time.monotonic()
            version = self._version()
            if version != self._looked_version or now_s >= self._look_at_s or after < self._reported:
                self._look_at_s, rung = now_s + LOOK_MAX_S, False
                self._rung(0.0)  # a commit that rang until now is visible, or stands in the WAL
                items = self._look(after)
                self._looked_version = version if version >= 0 and self._is_at_end else -2
                if items:
                    self._pace.found(now_s)
                    return items
            if now_s >= deadline_s or self._closed:
                return []
            pause_s = min(pause_s, LOOK_MAX_S) if rung or self._is_being_written() else LOOK_MAX_S
            rung_now = self._rung(min(deadline_s - now_s, pause_s))
            rung, pause_s = rung or rung_now, LOOK_MIN_S if rung_now else pause_s * LOOK_GROWTH

    @property
    def _is_at_end(self) -> bool:
        """All that was visible at the last look is reported."""
        return self._decoding is not None and self._decoding.position >= self._verified

    def _is_being_written(self) -> bool:
        """The WAL holds more than what is visible. Without a WAL nothing tells."""
        with self._polling:
            return not self._closed and (self._wal.is_behind() or self._wal.last > self._verified)

    def _version(self) -> int:
        """Another number once anybody has committed: a small question, to be asked before the whole one."""
        with self._polling:
            if self._closed or self._identity() != self._file:
                return -1
            try:
                return int(self._watch.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error:
                return -1  # whoever looks at the database will say why

    def _rung(self, timeout_s: float) -> bool:
        with self._listening:
            if self._closed:
                return False
            if 0 < timeout_s < BELL_MIN_S:
                time.sleep(timeout_s)
                timeout_s = 0.0
            return self._bell.wait(timeout_s)

    def _look(self, after: int) -> list[Item]:
        with self._polling:
            if self._closed:
                return []
            if self._identity() != self._file:
                raise SourceError(
                    f"{self.path} was replaced or removed", hint="restart Headwater with the current file"
                )
            try:
                items = _dated(self._poll(after), self._written_at())
                self._tick()
            except sqlite3.Error as error:
                raise source_error(error, f"{self.path} cannot be read") from error
            return items

    def _written_at(self) -> float | None:
        """When somebody last wrote to the WAL: by then, all was committed that can be read."""
        try:
            return self._wal.path.stat().st_mtime
        except OSError:
            return None

    def _poll(self, after: int) -> list[Item]:
        items = self._read(after)
        while items is None:
            self._follow_schema()
            items = self._read(after)
        if items:
            self._reported = max(item.position for item in items)
        if self._decoding is not None:
            self._end_garbled(self._decoding)
        return items

    def _read(self, after: int) -> list[Item] | None:
        """What there is after a position; None where the schema is not the one we know."""
        with self._pins.forward() as db:
            if schema_version(db) != self._schema_version:
                return None
            decoder = self._decoder_at(db, after)
            self._verified = upto = log_position(db)
            self._boundaries.look(upto)
            self._refuse_backwards(decoder.position, upto)
            first, self._is_first_look = self._is_first_look, False
            if first and upto > decoder.position:
                self._note_merged(decoder.position, upto)
            if upto > decoder.position:
                return self._decoded(db, decoder, upto)
            self._wal.read()
            return []

    def _decoder_at(self, db: sqlite3.Connection, after: int) -> LogDecoder:
        """The decoder that stands at `after`, or further on where nothing was reported in between."""
        now = self._decoding
        if now is None or not self._reported <= after <= now.position:
            now = self._decoding = self._decoder(db, after)
            self._reported = after
        elif self._stale:
            self._load(db, now)
        self._stale = any(capture.since is None for capture in now.captures.values())
        return now

    def _decoded(self, db: sqlite3.Connection, decoder: LogDecoder, upto: int) -> list[Item]:
        """The WAL tells where transactions end. Where it does not, they are merged up to what is visible."""
        self._wal.read()
        if not self._wal.ends(upto - 1, upto):
            self._wal.read(trusted=self._pins.frames())
        known = self._wal.ends(decoder.position, upto)
        ends = sorted({*known, *self._boundaries.between(decoder.position, upto)})
        del ends[bisect_left(ends, decoder.position + ROWS_MAX) + 1 :]
        if not ends or ends[-1] < min(decoder.position + ROWS_MAX, upto):
            ends.append(upto)
        rows = read_log(db, decoder.position, ends[-1])
        self._refuse_gap(decoder.position, rows[0][0] if rows else ends[-1] + 1)
        return decoder.decode(rows, ends)

    def _note_merged(self, after: int, upto: int) -> None:
        """What was committed while nobody read along, where the WAL does not reach back that far any more."""
        self._wal.read()
        end = next(iter(self._wal.ends(after, upto)), upto)
        if end > after + 1 and not self._wal.ends(-1, after):
            self._merged = after + 1, end

    def _follow_schema(self) -> None:
        """Brings the captures up to date with their tables. Where one of them is still being settled, waits for it."""
        if not self._followed_schema(settled=False):
            with self._settling:
                self._followed_schema(settled=True)

    def _followed_schema(self, settled: bool) -> bool:
        with self._capturing:
            with self._reading() as db:
                outdated, views, version = outdated_captures(db), read_views(db), schema_version(db)
                redefined = views != self._views and is_installed(db)
            if outdated and self._verified < 0:
                self._verified = self._reported
            if outdated or redefined:
                with self._writing() as db:
                    outdated = outdated_captures(db)
                    if not settled and any(capture.since is None for capture in outdated):
                        return False
                    self._follow(db, outdated)
                    version = schema_version(db)
            else:
                self._views = views
            self._schema_version, self._stale = version, True  # once it is committed: positions are given out by it
            return True

    def schema_position(self) -> int:
        try:
            with self._reading() as db:
                is_known = schema_version(db) == self._schema_version
            if not is_known:
                self._follow_schema()
        except sqlite3.Error as error:
            raise source_error(error, f"{self.path} cannot be read") from error
        return self._schema_position

    def _tick(self) -> None:
        if self._pins.due or time.monotonic() >= self._tick_at_s:
            self._wal.forget(self._pruned)
            self._boundaries.forget(self._pruned)
            self._pins.tick()
            self._tick_at_s = time.monotonic() + LOOK_MAX_S

    def snapshot(self, table: str, rows_max: int = 8192, condition: str = "") -> SqliteSnapshot:
        while True:
            looked = self._boundaries.looked
            snapshot = SqliteSnapshot(self._reading(), table, rows_max, condition)
            if self._boundaries.add(snapshot.position):
                return snapshot
            snapshot.close()
            self._refuse_backwards(looked, snapshot.position)

    # Questions: by processes that may die of them

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer:
        with self.questions.lent() as process:
            return answer_of(*process.ask(cancellation or Cancellation(), "ask", sql, plain(params)))

    def query_together(
        self, questions: Sequence[tuple[str, Params]], cancellation: Cancellation | None = None
    ) -> list[Answer]:
        asked = [(sql, plain(params)) for sql, params in questions]
        with self.questions.lent() as process:
            return answers_of(*process.ask(cancellation or Cancellation(), "ask together", "", asked))

    def reads(self, sql: str, params: Params = ()) -> Reads:
        with self.questions.lent() as process:
            [described] = process.ask(Cancellation(), "describe", sql, plain(params))
            return reads_of(described)

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        with self.questions.lent() as process:
            [position] = process.ask(Cancellation(), "begin")
            try:
                yield SqliteMoment(process, position)
            finally:
                process.leave()

    # The rest

    def notes(self) -> tuple[str, ...]:
        mode = str(self._writer.execute("PRAGMA journal_mode").fetchone()[0])
        if mode == "wal":
            return () if self._merged is None else (_MERGED.format(*self._merged),)
        return (
            f"journal mode is {mode}: transactions may merge, never split; PRAGMA journal_mode = WAL keeps them apart",
        )

    def close(self) -> None:
        self.questions.close()
        with self._polling, self._listening, self._writer_lock:
            self._closed = True
            self._pins.close()
            self._wal.close()
            self._watch.close()
            self._bell.close()
            self._writer.close()
            while self._readers:
                self._readers.pop().close()

    # Connections

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        db = self._reader()
        try:
            db.execute("BEGIN")
            yield db
        finally:
            self._return(db)

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            db = self._connect()
            db.execute("PRAGMA query_only = ON")
            return db

    def _return(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if self._closed or len(self._readers) >= READERS_MAX:
            db.close()
        else:
            self._readers.append(db)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._writer_lock:
            db = self._writer
            if db.in_transaction:
                raise SourceError(
                    "a transaction is already open in this thread", hint="write through it, or end it first"
                )
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except sqlite3.Error as error:
                raise source_error(error, f"{self.path} cannot be written") from error
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        """The first connection. A database that is not there yet is created, in WAL mode."""
        if not self.path.parent.is_dir():
            raise SourceError(f"there is no directory {self.path.parent}", hint="create it, or correct the path")
        new = not self.path.exists()
        try:
            db = self._connect()
            if new:
                db.execute("PRAGMA journal_mode = WAL")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            raise source_error(error, f"{self.path} cannot be opened as an SQLite database") from error
        return db

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise SourceError(f"the source {self.name} is closed")
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        return db

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _dated(items: list[Item], at: float | None) -> list[Item]:
    """The first transaction with the time of its commit, or of a later one that was read with it: who asks how long
    changes have waited asks the first."""
    for place, item in enumerate(items):
        if isinstance(item, Transaction):
            items[place] = replace(item, committed_at=at)
            break
    return items
