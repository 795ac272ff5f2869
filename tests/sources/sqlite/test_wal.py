"""Where transactions end: the WAL as bytes, and as other processes treat it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.change import Transaction
from headwater.sources.sqlite import read_pin
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.sqlite.triggers import POSITION
from headwater.sources.sqlite.wal import (
    HEADER_BYTES,
    WalReader,
    checksums,
    frame_checksums,
    left_seqs,
    parse_header,
    read_commits,
)
from tests.sources.replica import drain
from tests.sources.sqlite.conftest import Connect


def slow_checksum(words: list[int], s0: int, s1: int) -> tuple[int, int]:
    for x, y in zip(words[::2], words[1::2], strict=True):
        s0 = (s0 + x + s1) % 2**32
        s1 = (s1 + y + s0) % 2**32
    return s0, s1


@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=40).filter(lambda words: len(words) % 2 == 0),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_checksums_are_sqlites(words: list[int], s0: int, s1: int) -> None:
    found = checksums(np.array([words], np.uint32), np.array([[s0, s1]], np.uint32))[0]
    assert tuple(map(int, found)) == slow_checksum(words, s0, s1)


@given(st.binary(min_size=3 * (24 + 512), max_size=3 * (24 + 512)), st.booleans())
def test_of_a_frame_its_first_words_and_its_page_are_summed(data: bytes, big_endian: bool) -> None:
    frames = np.frombuffer(data, ">u4" if big_endian else "<u4").reshape(3, -1)
    before = np.arange(6, dtype=np.uint32).reshape(3, 2)
    summed = np.concatenate((frames[:, :2], frames[:, 6:]), axis=1)
    assert (frame_checksums(frames, before) == checksums(summed, before)).all()


def written(source: SqliteSource, db: sqlite3.Connection, count: int = 5) -> bytes:
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    for number in range(count):
        db.execute("INSERT INTO t VALUES (?)", (number,))
    return source.path.with_name(source.path.name + "-wal").read_bytes()


def test_the_wal_tells_every_end(source: SqliteSource, db: sqlite3.Connection) -> None:
    data = written(source, db)
    header = parse_header(data)
    assert header is not None
    commits = read_commits(data[HEADER_BYTES:], header, header.checksum, POSITION.encode())
    assert [seq for seq in commits.seqs if seq] == [1, 2, 3, 4, 5]
    assert commits.whole


@given(st.data())
def test_a_damaged_wal_tells_fewer_ends_and_no_wrong_ones(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "source.db"
    source = SqliteSource(path)
    db = sqlite3.connect(path, isolation_level=None)
    wal = bytearray(written(source, db))
    db.close()
    source.close()
    for _ in range(data.draw(st.integers(1, 3))):
        wal[data.draw(st.integers(0, len(wal) - 1))] ^= data.draw(st.integers(1, 255))
    del wal[data.draw(st.integers(0, len(wal))) :]
    (path.parent / "damaged").write_bytes(wal)
    reader = WalReader(path.parent / "damaged", POSITION.encode())
    reader.read()
    found = reader.ends(0, 99)
    assert found == [1, 2, 3, 4, 5][: len(found)]


def ends(source: SqliteSource) -> list[int]:
    return [item.position for item in drain(source, 0) if isinstance(item, Transaction)]


def test_frames_that_are_not_committed_are_not_read(source: SqliteSource, connect: Connect) -> None:
    db = connect("PRAGMA cache_size = 1", "CREATE TABLE t(a)")
    source.capture("t")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (zeroblob(3000))", [()] * 50)
    assert source.changes(0, 0) == []
    db.execute("ROLLBACK")
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (zeroblob(3000))", [()] * 50)
    db.execute("COMMIT")
    db.execute("INSERT INTO t VALUES (1)")
    assert ends(source) == [1, 51, 52]


def test_frames_spilled_in_a_savepoint_that_is_rolled_back(source: SqliteSource, connect: Connect) -> None:
    db = connect("PRAGMA cache_size = 1", "CREATE TABLE t(a)")
    source.capture("t")
    for _ in range(3):
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (zeroblob(3000))", [()] * 20)
        db.execute("SAVEPOINT s")
        db.executemany("INSERT INTO t VALUES (zeroblob(3000))", [()] * 20)
        db.execute("ROLLBACK TO s")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("COMMIT")
    assert ends(source) == [21, 42, 63]


@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_checkpoints_of_others_lose_no_end(source: SqliteSource, connect: Connect, mode: str) -> None:
    db = connect("PRAGMA busy_timeout = 10", "CREATE TABLE t(a)")
    source.capture("t")
    found: list[int] = []
    after = 0
    for number in range(30):
        db.execute("INSERT INTO t VALUES (?)", (number,))
        if number % 3 == 0:
            db.execute(f"PRAGMA wal_checkpoint({mode})")
        if number % 7 == 0:
            found += [item.position for item in source.changes(after, 5)]
            after = found[-1]
            source._pins.let_go()
    found += [item.position for item in source.changes(after, 5)]
    assert found == list(range(1, 31))


def test_the_wal_starts_over_when_it_has_grown(
    source: SqliteSource, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_pin, "WAL_BYTES_MAX", 100_000)
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    found: list[int] = []
    for _ in range(300):
        db.execute("INSERT INTO t VALUES (zeroblob(2000))")
        found += [item.position for item in source.changes(found[-1] if found else 0, 5)]
    assert found == list(range(1, 301))
    assert source._wal.path.stat().st_size < 200_000


def test_a_wal_that_is_not_there_yet(path: Path, connect: Connect) -> None:
    db = connect("PRAGMA journal_mode = WAL", "CREATE TABLE t(a)")
    first = SqliteSource(path)
    first.capture("t")
    first.close()
    db.close()
    assert not path.with_name(path.name + "-wal").exists()
    source = SqliteSource(path)
    assert source.changes(0, 0) == []
    again = connect("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    assert ends(source) == [1, 2]
    again.close()
    source.close()


def test_a_writer_that_is_killed_leaves_nothing(source: SqliteSource, db: sqlite3.Connection, path: Path) -> None:
    db.execute("CREATE TABLE t(a)")
    source.capture("t")
    code = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "db.execute('PRAGMA cache_size = 1'); db.execute('INSERT INTO t VALUES (1)'); db.execute('BEGIN'); "
        "db.executemany('INSERT INTO t VALUES (zeroblob(3000))', [()] * 50); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    db.execute("INSERT INTO t VALUES (2)")
    assert ends(source) == [1, 2]


def test_outside_wal_mode_transactions_may_merge_and_notes_say_so(path: Path, connect: Connect) -> None:
    db = connect("PRAGMA journal_mode = DELETE", "CREATE TABLE t(a)")
    source = SqliteSource(path)
    assert "delete" in source.notes()[0]
    source.capture("t")
    assert source.changes(0, 0) == []
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("INSERT INTO t VALUES (2)")
    (transaction,) = source.changes(0, 5)
    assert isinstance(transaction, Transaction)
    assert len(transaction.changes) == 2
    db.execute("INSERT INTO t VALUES (3)")
    assert [item.position for item in source.changes(2, 5)] == [3]
    source.close()
    assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def down(path: Path, connect: Connect, commits: int) -> tuple[list[Transaction], tuple[str, ...]]:
    """What a source tells of commits made while there was none, and what it says of that."""
    first = SqliteSource(path)
    db = connect()
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    first.capture("t")
    db.execute("INSERT INTO t VALUES (1, 0)")
    after = first.changes(0, 5)[-1].position
    first.close()
    db.execute("PRAGMA synchronous = OFF")
    for number in range(commits):
        db.execute("UPDATE t SET a = ?", (number,))
    second = SqliteSource(path)
    try:
        return [item for item in drain(second, after) if isinstance(item, Transaction)], second.notes()
    finally:
        second.close()


def test_commits_made_while_we_are_down_are_told_apart(path: Path, connect: Connect) -> None:
    found, notes = down(path, connect, 20)
    assert [len(one.changes) for one in found] == [1] * 20
    assert notes == ()


def test_as_far_as_the_wal_reaches_and_what_it_has_not_written_over_of_the_one_before(
    path: Path, connect: Connect
) -> None:
    """A writer's connection starts the WAL over after 1,000 pages; before that was read, 3,000 commits became seven
    transactions."""
    found, notes = down(path, connect, 3000)
    lengths = [len(one.changes) for one in found]
    assert sum(lengths) == 3000 and lengths[1:] == [1] * (len(found) - 1), "merged only before the first that is known"
    header = parse_header(path.with_name(path.name + "-wal").read_bytes()[:HEADER_BYTES])
    assert header is not None
    frames = path.with_name(path.name + "-wal").stat().st_size // header.frame_bytes
    assert len(found) > frames / 4 > 200, "each commit took three pages, or four"
    assert "positions 2 to" in notes[0] and "reported as one transaction" in notes[0]


def test_frames_left_of_the_wal_before_count_only_with_their_checksums(path: Path, connect: Connect) -> None:
    down(path, connect, 1000)
    data = bytearray(path.with_name(path.name + "-wal").read_bytes())
    header = parse_header(bytes(data[:HEADER_BYTES]))
    assert header is not None
    whole = left_seqs(bytes(data[HEADER_BYTES:]), header, POSITION.encode())
    assert len(whole) > 10
    for at in range(len(data) - 40, HEADER_BYTES, -header.frame_bytes * 7):
        damaged = data.copy()
        damaged[at] ^= 1
        assert set(left_seqs(bytes(damaged[HEADER_BYTES:]), header, POSITION.encode())) <= set(whole)
