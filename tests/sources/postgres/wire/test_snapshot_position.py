"""Where a snapshot stands among the transactions of the stream."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from headwater.sources.postgres import changes
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.postgres.wire.snapshot_position import PgSnapshot, RecentTransactions

Db = psycopg.Connection[Any]
_LONG_S = 60.0


def _recent(*transactions: tuple[int, int]) -> RecentTransactions:
    recent = RecentTransactions()
    for position, xid in transactions:
        recent.add(position, xid)
    return recent


def test_all_is_seen() -> None:
    assert _recent((100, 7), (200, 8)).place(PgSnapshot.parse("9:9:", 250), 0) == 250


def test_what_is_logged_and_not_seen_yet_comes_after_the_snapshot() -> None:
    seen = PgSnapshot.parse("8:10:8", 250)
    assert _recent((100, 7), (200, 8)).place(seen, 0) == 199
    assert _recent((100, 7), (200, 8)).place(seen, 199) == 199


def test_no_prefix_of_the_stream_has_no_position() -> None:
    assert _recent((100, 8), (200, 7)).place(PgSnapshot.parse("8:10:8", 250), 0) is None


def test_what_was_reported_must_be_seen() -> None:
    recent = _recent((100, 7), (200, 8))
    assert recent.place(PgSnapshot.parse("8:10:8", 250), 200) is None
    assert recent.place(PgSnapshot.parse("9:9:", 250), 251) is None


def test_what_is_logged_behind_the_snapshot_does_not_count() -> None:
    assert _recent((100, 7), (200, 9)).place(PgSnapshot.parse("8:8:", 150), 100) == 150


def test_a_look_at_the_catalog_does_not_count_for_what_is_logged_and_not_seen_yet() -> None:
    recent = _recent((100, 7), (200, 8), (300, 9))
    assert recent.seen_through(PgSnapshot.parse("8:10:8", 350)) == 199
    assert recent.seen_through(PgSnapshot.parse("10:10:", 350)) == 350


def test_ids_begin_again_after_four_billion() -> None:
    wrap = 1 << 32
    seen = PgSnapshot(wrap + 5, frozenset({wrap + 2, wrap - 1}), 0)
    assert [seen.sees(xid) for xid in (wrap - 2, wrap - 1, 1, 2, 4, 5, 6)] == [
        True,
        False,
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("reading", ["snapshot", "query", "moment"])
def test_where_something_was_read_is_told_at_once(
    source: PostgresSource, db: Db, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who waits for the position waits for the next change, or for the next time that progress is told."""
    monkeypatch.setattr(changes, "PROGRESS_S", 1e6)
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source.capture("t")
    after = source.position()
    source._changes._progress_at_s = time.monotonic() + 1e6
    db.execute("CREATE TABLE other AS SELECT 1 AS id")
    position = _read_at(source, reading)
    assert position > after
    while after < position:
        items = source.changes(after, _LONG_S)
        assert items, f"{position} is not told, only {after}"
        after = items[-1].position


def _read_at(source: PostgresSource, reading: str) -> int:
    if reading == "query":
        return source.query("SELECT id FROM t").position
    with source.snapshot("t") if reading == "snapshot" else source.moment() as read:
        return read.position
