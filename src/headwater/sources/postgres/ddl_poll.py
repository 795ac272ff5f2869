"""Looks at the catalog now and then: what happened to captured tables that the stream does not tell, or not yet.

What it finds is told once the stream is past the place where it was found, so in order with everything else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.model.errors import SourceError
from headwater.sources.postgres.catalog.cache_validity import read_files
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.catalog.event_trigger import is_announced
from headwater.sources.postgres.catalog.fingerprint import Fingerprint, read_fingerprint
from headwater.sources.postgres.catalog.publication import lack, published, unpublish
from headwater.sources.postgres.catalog.tables import PostgresTable, read_shapes, secured_reason
from headwater.sources.postgres.server.connections import Connection, Sessions, Unreachable
from headwater.sources.postgres.stream import Stream
from headwater.sources.postgres.wire.snapshot_position import PgSnapshot
from headwater.sources.source import ChangesLost, Item, Redefinition, SchemaChange

LOOK_S = 1.0
_AGAIN_S = 0.05  # while something is held that the last look did not see
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CatalogLook:
    """The captured tables as they were at `position`, as `seen` saw them, and which of them are published. `asked` are
    those looked for, as the stream had told of them: one captured meanwhile is not missing."""

    asked: dict[int, CapturedTable]
    seen: PgSnapshot
    position: int
    shapes: dict[int, PostgresTable]
    published: set[int]
    fingerprint: Fingerprint

    def is_outdated(self, captures: Mapping[int, CapturedTable]) -> bool:
        """The stream has given a table another shape since: it is compared with that, at another look."""
        return any(captures.get(oid, one) != one for oid, one in self.asked.items())


class DdlPoll:
    """Used by the one thread that takes changes, but for `is_current` and `is_settled`. `sees_through`: somebody reads
    through views or functions, so their definitions count. `hears`: DDL says so in the stream itself."""

    def __init__(self, sessions: Sessions, publication: Callable[[], str]) -> None:
        self._sessions, self._publication = sessions, publication
        self._found: _CatalogLook | None = None
        self._look_at_s = self._ask_at_s = 0.0
        self.refused = 0  # looks in a row at which the server let nobody in
        self._given: Fingerprint | None = None  # as of the last look whose news the stream has
        self._taken: Fingerprint | None = None  # the same, once somebody has taken them
        self.sees_through = self.hears = False

    def is_current(self, db: Connection, stream: Stream) -> tuple[bool, str]:
        """Whether all that the catalog has by now was taken; and where the log stands, not earlier than that."""
        fingerprint, log = self._fingerprint(db, _captures(stream))
        return fingerprint == self._taken, log

    def is_settled(self, stream: Stream) -> bool:
        """Whether all that the stream has read of the catalog's changes was looked at and taken."""
        with stream.moved:
            is_taken = self._taken is not None and self._taken == self._given
            return is_taken and not stream.is_held and not stream.has_shapes

    def _fingerprint(self, db: Connection, captures: Mapping[int, CapturedTable]) -> tuple[Fingerprint, str]:
        return read_fingerprint(db, captures.values(), self._publication(), self.sees_through)

    def forget(self) -> None:
        """What was told since will be asked for again."""
        self._given = self._taken = None

    def due_in_s(self) -> float:
        return max(0.0, self._look_at_s - time.monotonic()) if self._found is None else LOOK_S

    def has_news(self, stream: Stream) -> bool:
        """The stream is past the place of the last look; or it holds too much to come as far."""
        return self._found is not None and (stream.position >= self._found.position or stream.is_crowded)

    @property
    def has_found_another(self) -> bool:
        """Another catalog than at the look before: somebody waits to be told."""
        return self._found is not None and self._found.fingerprint != self._given

    def looks_now(self) -> bool:
        """At the catalog, with the next news; False where what it found waits for the stream."""
        self._look_at_s = 0.0
        return self._found is None

    def finds_other_files(self, stream: Stream) -> bool:
        """Whether partitions have other files than those we know. Cheap; nothing where no table has partitions."""
        known = {oid: one.validity.files for oid, one in _captures(stream).items() if one.validity.files}
        if not known:
            return False
        with self._sessions.lent() as db:
            files, _ = read_files(db, list(known))
        return any(files[oid] != known[oid] for oid in known)

    def tell(self, stream: Stream, now: Callable[[Connection], int]) -> None:
        """Gives the stream what was found, once it is past that. Called when all that was taken before is logged."""
        if not stream.has_shapes:
            self._taken = self._given
        if self._heard(stream):
            self._listen(stream, now)
        if self._found is None and time.monotonic() >= self._look_at_s:
            self._look_at_s = self._ask_at_s = time.monotonic() + LOOK_S
            self._found = self._counted(lambda: self._looked(stream, now))
            if self._found is None:
                stream.release(None)  # nothing is captured: nobody has rows of before
        elif self._found is not None and time.monotonic() >= self._ask_at_s:
            self._ask_at_s = time.monotonic() + LOOK_S
            self._counted(self._ask)
        if self._found is not None and self.has_news(stream):
            found, self._found = self._found, None
            if found.is_outdated(_captures(stream)):
                self._look_at_s = 0.0
            else:
                self._give(stream, found)

    def _give(self, stream: Stream, found: _CatalogLook) -> None:
        old = [one for oid, one in _captures(stream).items() if oid in found.asked and one.since <= found.position]
        self._unpublish(old, found)
        redefined = found.fingerprint.definitions != (self._given.definitions if self._given is not None else "")
        with stream.moved:
            items = [item for capture in old for item in _compared(stream, capture, found)]
            self._given = found.fingerprint
            others: list[Item] = [one for one in items if not one.lost]
            stream.give([*others, Redefinition(stream.decoder.shapes.reported)] if redefined else others)
            stream.give_first([one for one in items if one.lost])
            self._release(stream, found.seen)

    def _release(self, stream: Stream, seen: PgSnapshot) -> None:
        stream.release(seen)
        if stream.is_held:
            self._look_at_s = min(self._look_at_s, time.monotonic() + _AGAIN_S)

    def _listen(self, stream: Stream, now: Callable[[Connection], int]) -> None:
        """DDL was heard of: most of it concerns nothing of ours, and then there is nothing to look at."""
        due_s, self._look_at_s = self._look_at_s, 0.0
        captures = _captures(stream)
        if self._found is not None or self._given is None or not captures:
            return
        with self._seeing(now) as (db, seen):
            fingerprint, _ = self._fingerprint(db, captures)
        if fingerprint == self._given:
            self._look_at_s = due_s
            self._release(stream, seen)

    def _unpublish(self, captures: Sequence[CapturedTable], found: _CatalogLook) -> None:
        """While a table is published, its user's updates fail for want of an identity. Before it ends: nobody can
        have captured it anew by then. In vain where the user has it locked; the rest does not depend on it."""
        over = [capture.oid for capture in captures if _reason(capture, found) and capture.oid in found.published]
        with contextlib.suppress(SourceError), self._sessions.lent() as db:
            for shape in (found.shapes[oid] for oid in over if oid in found.shapes):
                unpublish(db, self._publication(), shape)

    def _heard(self, stream: Stream) -> bool:
        with stream.moved:
            heard, stream.decoder.heard_ddl = stream.decoder.heard_ddl, False
            return heard

    def _counted(self, look: Callable[[], T]) -> T:
        try:
            found = look()
        except Unreachable:
            self.refused += 1
            raise
        self.refused = 0
        return found

    def _ask(self) -> None:
        """While what was found waits for the stream to come as far: is the server there?"""
        with self._sessions.lent() as db:
            db.execute("SELECT 1")

    @contextlib.contextmanager
    def _seeing(self, now: Callable[[Connection], int]) -> Iterator[tuple[Connection, PgSnapshot]]:
        """A snapshot, and what it sees: all that is committed before, but for what it says itself."""
        with self._sessions.lent() as db:
            upto = now(db)
        with self._sessions.reading() as db:
            (snapshot,) = db.execute("SELECT pg_current_snapshot()::text").fetchall()[0]
            yield db, PgSnapshot.parse(snapshot, upto)

    def _looked(self, stream: Stream, now: Callable[[Connection], int]) -> _CatalogLook | None:
        asked = _captures(stream)
        if not asked:
            return None
        with self._seeing(now) as (db, seen):
            gone = lack(db, self._publication())
            if gone is not None:
                raise ChangesLost(gone)
            shapes = read_shapes(db, sorted(asked))
            there = published(db, self._publication())
            fingerprint, _ = self._fingerprint(db, asked)
            self.hears = is_announced(db)
            return _CatalogLook(asked, seen, now(db), shapes, there, fingerprint)


def _captures(stream: Stream) -> dict[int, CapturedTable]:
    with stream.moved:
        return dict(stream.decoder.row_cache.captures)


def _compared(stream: Stream, capture: CapturedTable, found: _CatalogLook) -> list[SchemaChange]:
    position, reason = min(found.position, stream.position) + 1, _reason(capture, found)
    if reason is not None:
        ended = stream.decoder.shapes.ended(capture, reason, position)
        return [replace(ended, lost=_may_go_on(capture, found))]
    if position <= found.position and _is_another(capture, found.shapes[capture.oid]):
        reason = f"table {capture.table.name} was altered, and too many changes came after that to be held back"
        return [replace(stream.decoder.shapes.ended(capture, reason, position), lost=True)]
    return [*stream.decoder.shapes.fitted(found.shapes[capture.oid], position)] if position > found.position else []


def _is_another(capture: CapturedTable, shape: PostgresTable) -> bool:
    """Than the one that what the stream has yet to tell begins with."""
    fields = [(field.name, field.type) for field in shape.sent]
    return fields != list(zip(capture.table.names, capture.types, strict=True)) or shape.validity != capture.validity


def _reason(capture: CapturedTable, found: _CatalogLook) -> str | None:
    """Why the table cannot be followed any more, whatever its columns are now."""
    name, shape = capture.table.name, found.shapes.get(capture.oid)
    if shape is None:
        return f"table {name} was dropped"
    if shape.oid not in found.published:
        return f"table {name} was removed from the publication; its changes since then are lost"
    if not shape.identity_columns:
        return f"table {name} no longer has a replica identity"
    if shape.parts != capture.parts:
        return f"partitions of table {name} were attached or detached"
    if shape.is_secured:
        return secured_reason(name)
    return None


def _may_go_on(capture: CapturedTable, found: _CatalogLook) -> bool:
    """It was only taken out of the publication, and may be put in again."""
    shape = found.shapes.get(capture.oid)
    return shape is not None and shape.oid not in found.published and shape.name == capture.table.name
