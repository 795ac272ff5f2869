"""Looks at the catalog now and then: what happened to captured tables that the stream does not tell, or not yet.

What it finds is told once the stream is past the place where it was found, so in order with everything else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.model.errors import SourceError
from headwater.sources.postgres.captured import Captured
from headwater.sources.postgres.fingerprint import Fingerprint, read_fingerprint
from headwater.sources.postgres.grounds import read_files
from headwater.sources.postgres.placing import Seen
from headwater.sources.postgres.publishing import lack, published, unpublish
from headwater.sources.postgres.sessions import Connection, Sessions, Unreachable
from headwater.sources.postgres.shape import Shape, read_shapes, secured_reason
from headwater.sources.postgres.stream import Stream
from headwater.sources.source import Item, Lost, Redefinition, SchemaChange

LOOK_S = 1.0
_AGAIN_S = 0.05  # while something is held that the last look did not see
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Found:
    """The captured tables as they were at `position`, as `seen` saw them, and which of them are published. `asked` are
    those looked for, as the stream had told of them: one captured meanwhile is not missing, one that the stream gave
    another shape meanwhile is not as it was found."""

    asked: dict[int, Captured]
    seen: Seen
    position: int
    shapes: dict[int, Shape]
    published: set[int]
    fingerprint: Fingerprint


class Watch:
    """Used by the one thread that takes changes, but for `is_current`. `sees_through`: somebody reads through views or
    functions, so their definitions count."""

    def __init__(self, sessions: Sessions, publication: Callable[[], str]) -> None:
        self._sessions, self._publication = sessions, publication
        self._found: _Found | None = None
        self._look_at_s = self._ask_at_s = 0.0
        self.refused = 0  # looks in a row at which the server let nobody in
        self._fingerprint: Fingerprint | None = None  # as of the last look
        self.sees_through = False

    def is_current(self, db: Connection, stream: Stream) -> bool:
        """Whether the catalog is as it was at the last look."""
        with stream.moved:
            oids = sorted(stream.translation.keeping.captures)
        return read_fingerprint(db, oids, self._publication(), self.sees_through) == self._fingerprint

    def forget(self) -> None:
        """What was told since will be asked for again."""
        self._fingerprint = None

    def due_in_s(self) -> float:
        return max(0.0, self._look_at_s - time.monotonic()) if self._found is None else LOOK_S

    def has_news(self, stream: Stream) -> bool:
        """The stream is past the place of the last look."""
        return self._found is not None and stream.position >= self._found.position

    @property
    def has_found_another(self) -> bool:
        """Another catalog than at the look before: somebody waits to be told."""
        return self._found is not None and self._found.fingerprint != self._fingerprint

    def looks_now(self) -> bool:
        """At the catalog, with the next news; False where what it found waits for the stream."""
        self._look_at_s = 0.0
        return self._found is None

    def finds_other_files(self, stream: Stream) -> bool:
        """Whether partitions have other files than those we know. Cheap; nothing where no table has partitions."""
        with stream.moved:
            known = {one.oid: one.grounds.files for one in stream.translation.keeping.captures.values()}
        partitioned = [oid for oid, files in known.items() if files]
        if not partitioned:
            return False
        with self._sessions.lent() as db:
            files, _ = read_files(db, partitioned)
        return any(files[oid] != known[oid] for oid in partitioned)

    def tell(self, stream: Stream, now: Callable[[Connection], int]) -> None:
        """Gives the stream what was found, once it is past that."""
        if self._heard(stream):
            self._look_at_s = 0.0
        if self._found is None and time.monotonic() >= self._look_at_s:
            self._look_at_s = self._ask_at_s = time.monotonic() + LOOK_S
            self._found = self._counted(lambda: self._looked(stream, now))
            if self._found is None:
                stream.release(None)  # nothing is captured: nobody has rows of before
        elif self._found is not None and time.monotonic() >= self._ask_at_s:
            self._ask_at_s = time.monotonic() + LOOK_S
            self._counted(self._ask)
        if self._found is None or not self.has_news(stream):
            return
        found, self._found = self._found, None
        with stream.moved:
            captures = list(stream.translation.keeping.captures.values())
            old = [one for one in captures if found.asked.get(one.oid) == one and one.since <= found.position]
        self._unpublish(old, found)
        known = self._fingerprint.definitions if self._fingerprint is not None else ""
        redefined = found.fingerprint.definitions != known
        with stream.moved:
            items = [item for capture in old for item in _compared(stream, capture, found)]
            self._fingerprint = found.fingerprint
            others: list[Item] = [one for one in items if not one.lost]
            stream.give([*others, Redefinition(stream.translation.reported)] if redefined else others)
            stream.give_first([one for one in items if one.lost])
            stream.release(found.seen)
            if stream.is_held:
                self._look_at_s = min(self._look_at_s, time.monotonic() + _AGAIN_S)

    def _unpublish(self, captures: Sequence[Captured], found: _Found) -> None:
        """While a table is published, its user's updates fail for want of an identity. Before it ends: nobody can
        have captured it anew by then. In vain where the user has it locked; the rest does not depend on it."""
        over = [capture.oid for capture in captures if _reason(capture, found) and capture.oid in found.published]
        with contextlib.suppress(SourceError), self._sessions.lent() as db:
            for shape in (found.shapes[oid] for oid in over if oid in found.shapes):
                unpublish(db, self._publication(), shape)

    def _heard(self, stream: Stream) -> bool:
        with stream.moved:
            heard, stream.translation.heard_ddl = stream.translation.heard_ddl, False
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

    def _looked(self, stream: Stream, now: Callable[[Connection], int]) -> _Found | None:
        with stream.moved:
            asked = dict(stream.translation.keeping.captures)
        if not asked:
            return None
        with self._sessions.lent() as db:
            upto = now(db)  # what is committed before is seen, but for what the snapshot says
        with self._sessions.reading() as db:
            (snapshot,) = db.execute("SELECT pg_current_snapshot()::text").fetchall()[0]
            seen = Seen.parse(snapshot, upto)
            gone = lack(db, self._publication())
            if gone is not None:
                raise Lost(gone)
            shapes = read_shapes(db, sorted(asked))
            there = published(db, self._publication())
            fingerprint = read_fingerprint(db, sorted(asked), self._publication(), self.sees_through)
            return _Found(asked, seen, now(db), shapes, there, fingerprint)


def _compared(stream: Stream, capture: Captured, found: _Found) -> list[SchemaChange]:
    position, reason = found.position + 1, _reason(capture, found)
    if reason is not None:
        ended = stream.translation.ended(capture, reason, position)
        return [replace(ended, lost=_may_go_on(capture, found))]
    return [*stream.translation.fitted(found.shapes[capture.oid], position)]


def _reason(capture: Captured, found: _Found) -> str | None:
    """Why the table cannot be followed any more, whatever its columns are now."""
    name, shape = capture.table.name, found.shapes.get(capture.oid)
    if shape is None:
        return f"table {name} was dropped"
    if shape.oid not in found.published:
        return f"table {name} was taken out of the publication, and with it the changes since"
    if not shape.identity_columns:
        return f"table {name} has no replica identity any more"
    if shape.parts != capture.parts:
        return f"partitions of table {name} were attached or detached"
    if shape.is_secured:
        return secured_reason(name)
    return None


def _may_go_on(capture: Captured, found: _Found) -> bool:
    """It was only taken out of the publication, and may be put in again."""
    shape = found.shapes.get(capture.oid)
    return shape is not None and shape.oid not in found.published and shape.name == capture.table.name
