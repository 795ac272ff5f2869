"""The server's write-ahead log: where it ends now, as a position. Its content is read by `wire`."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sources.postgres.server.connections import Connection, Sessions
from headwater.sources.postgres.server.lsn import end_of_record, parse_lsn

NUDGE = "SELECT pg_logical_emit_message(true, 'headwater', 'nudge')"
_END = "SELECT pg_current_wal_insert_lsn()::text"


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    sessions: Sessions
    page_bytes: int
    segment_bytes: int

    def end(self, db: Connection) -> int:
        row = db.execute(_END).fetchone()
        assert row is not None
        return self.position_of(row[0])

    def position_of(self, lsn: str) -> int:
        return end_of_record(parse_lsn(lsn), self.page_bytes, self.segment_bytes)

    def nudge(self) -> None:
        """Commits a message of ours, so that the server writes and sends everything that came before it."""
        with self.sessions.lent() as db:
            db.execute(NUDGE)
