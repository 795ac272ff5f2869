"""Bad data: damaged logs, malformed records, databases that are none, tables that go. Each a clear error or a `closed`
with its reason; the server stays up, and who does not depend on it does not notice."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.log.record import Kind
from headwater.model.limits import DEFAULT
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.records.diff_record import decode_report
from headwater.pipeline.runners.inline import InlineRunner
from tests.support.databases import Place, place, rows, values
from tests.support.neighbours import neighbour
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT)"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is done here on purpose is not for the test's report."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "origin.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(SCHEMA)
        db.execute("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
    db.close()
    return f"sqlite:///{path}"


@pytest.fixture
def here(tmp_path: Path, url: str) -> Iterator[Place]:
    with place("ws", tmp_path / "data", url=url) as opened:
        yield opened


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def flip(path: Path, at: int) -> None:
    """One bit, wherever it is."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(bytes(data))


def closed(live: headwater.LiveResult) -> str:
    eventually(lambda: live.state == "closed")
    return live.reason or ""


# — the log


def test_a_damaged_log_is_begun_anew_at_the_next_start(tmp_path: Path, url: str) -> None:
    """All that it said is in the database. What clients knew of it does not count any more: they get fresh results."""
    data = tmp_path / "data"
    with place("embedded", data, url=url) as here:
        live = here.db.query("SELECT id FROM t", live=True)
        live.wait(here.write("INSERT INTO t VALUES (3, 30, 'c')"))
    (data / "mine").write_text("not Headwater's")
    [segment] = segments(data / "log")
    flip(segment, segment.stat().st_size // 2)
    with place("embedded", data, url=url) as here:
        again = here.db.query("SELECT id FROM t", live=True)
        assert sorted(values(again)) == [1, 2, 3] and again.gen > live.gen
        assert again.wait(here.write("DELETE FROM t WHERE id = 2")) and sorted(values(again)) == [1, 3]
    assert (data / "mine").read_text() == "not Headwater's", "nothing else was touched"


@pytest.mark.parametrize("kind", [Kind.FRAME, Kind.SUBSCRIBE, Kind.SCHEMA])
def test_a_malformed_record_ends_the_cells_queries_with_the_reason(here: Place, kind: Kind) -> None:
    """To skip a record of the log would make results wrong: what depends on it ends, and is refused from then on."""
    live = here.db.query("SELECT id FROM t", live=True)
    here.server.pipeline._log.append(kind, b"\xc1 junk")
    assert "cell 0 cannot continue" in closed(live)
    assert "cannot continue" in here.db.status()["failure"]
    with pytest.raises(headwater.HeadwaterError, match="cannot continue") as refused:
        here.db.query("SELECT id FROM t", live=True)
    assert "fresh data directory" in (refused.value.hint or "")
    assert "SELECT" in here.db.explain("SELECT id FROM t"), "the server is up"


def test_a_broken_cell_is_nobody_elses_business(tmp_path: Path) -> None:
    """Of two cells one cannot continue: the queries of the other do."""
    with place("ws", tmp_path, cells="2x1") as here:
        here.write(SCHEMA)
        pipeline, sql = here.server.pipeline, "SELECT id FROM t WHERE n = ?"
        lives = [here.db.query(sql, n, live=True) for n in range(8)]
        cells = [pipeline.cell_of(pipeline.plan(sql, [n])) for n in range(8)]
        assert set(cells) == {0, 1} and isinstance(pipeline.runner, InlineRunner)
        pipeline.runner.broken[1] = "cell 1 cannot continue: a test"
        for live, cell in zip(lives, cells, strict=True):
            if cell == 1:
                assert closed(live) == "cell 1 cannot continue: a test"
        pipeline.runner.broken.clear()
        position = here.write("INSERT INTO t VALUES (1, 0, ''), (2, 1, ''), (3, 2, ''), (4, 3, '')")
        for n, (live, cell) in enumerate(zip(lives, cells, strict=True)):
            if cell == 0:
                assert live.wait(position) and len(live.rows) == (n < 4) and live.resyncs == 0


# — the diffs


def corrupted_unread(here: Place, spoil: Any) -> int:
    """Something is appended to the diffs and damaged before the hub gets to see it."""
    hub = here.server.hub
    with hub._lock:
        before = here.server.pipeline.layout.diffs(0)
        size = segments(before)[-1].stat().st_size
        position = here.write("UPDATE t SET n = n + 1")
        eventually(lambda: segments(before)[-1].stat().st_size > size)
        spoil(segments(before)[-1], size)
    return position


@pytest.mark.parametrize("at", [0, 4, 9, 30, 200], ids=["crc", "length", "offset", "payload", "rows"])
def test_damaged_diffs_are_made_up_for_by_fresh_results(here: Place, at: int) -> None:
    lives = [here.db.query(f"SELECT id, n FROM t {tail}", live=True) for tail in ("", "ORDER BY n DESC")]
    for _ in range(2):
        position = corrupted_unread(here, lambda path, size: flip(path, size + at))
        last = here.write("INSERT OR REPLACE INTO t VALUES (3, 5, 'c')")
        for live in lives:
            assert live.wait(max(position, last))
            assert sorted(map(repr, rows(live))) == sorted(
                repr({"id": id, "n": n}) for id, n in here.source_rows("SELECT id, n FROM t")
            )
    assert here.db.status()["failure"] is None


def test_a_report_that_does_not_read_is_made_up_for_too(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    live = here.db.query("SELECT id FROM t", live=True)

    def spoilt(payload: bytes) -> Any:
        monkeypatch.undo()
        return decode_report(b"\xc1 junk")

    monkeypatch.setattr("headwater.gateway.hub.diff_reader.decode_report", spoilt)
    position = here.write("DELETE FROM t WHERE id = 1")
    assert live.wait(position)
    assert values(live) == [2]
    assert live.wait(here.write("DELETE FROM t WHERE id = 2")) and values(live) == []


@pytest.mark.parametrize("part", ["first", "middle", "last", "header"])
def test_damaged_diffs_are_set_aside_at_the_next_start(tmp_path: Path, url: str, part: str) -> None:
    data = tmp_path / "data"
    with place("embedded", data, url=url) as here:
        live = here.db.query("SELECT id, n FROM t", live=True)
        for n in range(10):
            live.wait(here.write("UPDATE t SET n = ? WHERE id = 1", n))
    [segment] = segments(data / "cells" / "0" / "diffs")
    size = segment.stat().st_size
    flip(segment, {"first": 40, "middle": size // 2, "last": size - 5, "header": 3}[part])
    with place("ws", data, url=url) as here, neighbour(here) as other:
        live = here.db.query("SELECT id, n FROM t", live=True)
        assert live.wait(here.write("INSERT INTO t VALUES (7, 70, '')"))
        assert {row["id"]: row["n"] for row in live.rows} == {1: 9, 2: 20, 7: 70}
        other.lives()


# — the source


@pytest.mark.parametrize("content", [b"", b"this is no database, and was never one" * 50])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    if not content:  # an empty file is an empty database to SQLite
        with headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data") as db:
            assert db.query("SELECT 1 AS one") == [{"one": 1}]
        return
    with pytest.raises(headwater.HeadwaterError, match="not a database"):
        headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data")


def test_a_place_where_no_database_can_be(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "x.db"):
        with pytest.raises(headwater.SourceError):
            headwater.connect(f"sqlite:///{path}", runner="inline", data_dir=tmp_path / "data")
    for address in ("", "sqlite://", "oracle://x", "memory:"):
        with pytest.raises(headwater.SourceError, match="address of a database"):
            headwater.connect(address, runner="inline", data_dir=tmp_path / "data")
    with pytest.raises(headwater.HeadwaterError, match="expected runner 'spark' or 'inline'"):
        headwater.connect("memory://", runner="thread", data_dir=tmp_path / "data")


def test_a_data_directory_belongs_to_one_source(tmp_path: Path, url: str) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data"):
        pass
    with pytest.raises(headwater.HeadwaterError, match=r"the data directory belongs to .* not to memory-"):
        headwater.connect("memory://", runner="inline", data_dir=tmp_path / "data")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
        assert len(db.query("SELECT id FROM t", live=True).rows) == 2


def test_a_data_directory_has_one_grid(tmp_path: Path, url: str) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data"):
        pass
    with pytest.raises(headwater.HeadwaterError, match="was created with 1 cells, not with 2"):
        headwater.connect(url, runner="inline", data_dir=tmp_path / "data", cells="2x1")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data", cells="1x1"):
        pass


def test_a_source_that_went_back_in_time_is_refused(tmp_path: Path, url: str) -> None:
    path = tmp_path / "origin.db"
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
        live = db.query("SELECT id FROM t", live=True)
        for n in range(5):
            live.wait(db.execute("INSERT INTO t (id) VALUES (?)", 100 + n))
    for file in tmp_path.glob("origin.db*"):
        file.unlink()
    sqlite3.connect(path).executescript(SCHEMA).connection.close()
    with pytest.raises(headwater.SourceError, match="another database, or an older copy") as refused:
        headwater.connect(url, runner="inline", data_dir=tmp_path / "data")
    assert "fresh data directory" in (refused.value.hint or "")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "fresh") as db:
        assert list(db.query("SELECT id FROM t", live=True).rows) == []


def test_a_database_file_deleted_while_live_is_told(here: Place, tmp_path: Path) -> None:
    live = here.db.query("SELECT id FROM t", live=True)
    for file in tmp_path.glob("origin.db*"):
        file.unlink()
    failure = eventually(lambda: here.db.status()["failure"])
    assert "origin.db" in failure
    assert live.state in ("ready", "stale", "closed") and sorted(values(live)) == [1, 2]


# — tables that change


def test_a_dropped_table_ends_its_queries_with_the_reason_and_no_others(here: Place) -> None:
    with neighbour(here) as other:
        lives = [here.db.query(f"SELECT id FROM t {tail}", live=True) for tail in ("", "WHERE n = 10", "ORDER BY n")]
        assert lives[0].wait(here.write("INSERT INTO t VALUES (3, 10, 'c')"))
        here.write("DROP TABLE t")
        for live in lives:
            assert "dropped" in closed(live)
        with pytest.raises(headwater.SqlError, match="t"):
            here.db.query("SELECT id FROM t", live=True)
        other.lives()
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, other TEXT)")
        here.write("INSERT INTO t VALUES (7, 'x')")
        again = here.db.query("SELECT * FROM t", live=True)
        assert rows(again) == [{"id": 7, "other": "x"}]
        assert again.wait(here.write("UPDATE t SET other = 'y'"))
        assert rows(again) == [{"id": 7, "other": "y"}]


def test_a_renamed_table_ends_its_queries_too(here: Place) -> None:
    with neighbour(here) as other:
        live = here.db.query("SELECT id FROM t", live=True)
        here.write("ALTER TABLE t RENAME TO u")
        assert closed(live)
        other.lives()
        again = here.db.query("SELECT id FROM u", live=True)
        assert again.wait(here.write("INSERT INTO u (id) VALUES (3)"))
        assert sorted(values(again)) == [1, 2, 3]


def test_an_added_column_leaves_queries_running(here: Place) -> None:
    with neighbour(here) as other:
        live = here.db.query("SELECT id, n FROM t ORDER BY id", live=True)
        star = here.db.query("SELECT * FROM t ORDER BY id", live=True)
        here.write("ALTER TABLE t ADD COLUMN extra TEXT DEFAULT 'none'")
        assert live.wait(here.write("INSERT INTO t VALUES (3, 30, 'c', 'more')"))
        assert rows(live) == [{"id": 1, "n": 10}, {"id": 2, "n": 20}, {"id": 3, "n": 30}]
        newer = here.db.query("SELECT id, extra FROM t ORDER BY id", live=True)
        assert values(newer, "extra") == ["none", "none", "more"]
        position = here.write("UPDATE t SET extra = extra || '!', n = n + 1")
        assert all(one.wait(position) for one in (live, newer, star))
        assert values(newer, "extra") == ["none!", "none!", "more!"] and values(live, "n") == [11, 21, 31]
        assert [row["n"] for row in star.rows] == [11, 21, 31] and (live.state, star.state) == ("ready", "ready")
        other.lives()


def test_a_column_that_becomes_mixed_while_live(here: Place) -> None:
    """SQLite takes any value in any column; what a query computes with it stays what SQLite computes."""
    with neighbour(here) as other:
        sql = "SELECT id, n, typeof(n) AS kind FROM t ORDER BY n, id"
        live = here.db.query(sql, live=True)
        for value in ("text", b"\x01", 1.5, 2**60, None, "7"):
            position = here.write("INSERT INTO t (n) VALUES (?)", value)
            assert live.wait(position)
            assert [tuple(row.values()) for row in live.rows] == here.source_rows(sql)
        other.lives()


# — results


def test_a_result_that_grows_too_large_is_closed_with_the_limit(tmp_path: Path) -> None:
    with place("ws", tmp_path, limits=replace(DEFAULT, result_rows_max=5)) as here:
        here.write(SCHEMA)
        with neighbour(here) as other:
            live = here.db.query("SELECT id FROM t", live=True)
            few = here.db.query("SELECT id FROM t ORDER BY id LIMIT 3", live=True)
            for n in range(5):
                assert live.wait(here.write("INSERT INTO t VALUES (?, 0, '')", n))
            position = here.write("INSERT INTO t VALUES (9, 0, '')")
            assert "5" in closed(live)
            assert few.wait(position) and values(few) == [0, 1, 2]
            with pytest.raises(headwater.HeadwaterError, match=r"closed: .*5"):
                here.db.query("SELECT id FROM t", live=True)
            assert few.wait(here.write("DELETE FROM t WHERE id > 2"))
            assert sorted(values(here.db.query("SELECT id FROM t", live=True))) == [0, 1, 2]
            other.lives()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, abs(n) AS n FROM t ORDER BY id",
        "SELECT a.id, abs(b.n) AS n FROM t a JOIN t b ON b.id = a.id AND abs(b.n) > 0 ORDER BY a.id",
    ],
)
def test_an_expression_that_fails_for_one_row_is_an_error_until_the_row_goes(here: Place, sql: str) -> None:
    with neighbour(here) as other:
        live = here.db.query(sql, live=True)
        here.write("INSERT INTO t VALUES (3, -9223372036854775808, '')")
        eventually(lambda: live.state == "stale")
        assert "integer overflow" in (live.reason or "")
        other.lives()
        here.write("UPDATE t SET n = -11 WHERE id = 1")
        assert live.wait(here.write("DELETE FROM t WHERE id = 3"))
        assert rows(live) == [{"id": 1, "n": 11}, {"id": 2, "n": 20}]
        assert (live.state, live.reason) == ("ready", None)
        assert live.wait(here.write("UPDATE t SET n = -12 WHERE id = 1")) and rows(live)[0] == {"id": 1, "n": 12}


@pytest.mark.parametrize("text", ["", "x", "0x1", "2x2", "-1x1", "1025x1", "1x1x1", "1.5"])
def test_a_grid_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(headwater.HeadwaterError, match="expected"):
        Grid.parse(text)


def test_grids_that_are() -> None:
    assert [Grid.parse(text) for text in ("1", "1x1", " 4x1 ", "1024x1")] == [Grid(), Grid(), Grid(4), Grid(1024)]
    assert str(Grid.parse("4x1")) == "4x1" and Grid(4).cells == 4
