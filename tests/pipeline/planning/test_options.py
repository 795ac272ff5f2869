"""Strategies and join orders that are forced: the same rows, and a refusal with the reason where they cannot serve."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from headwater.log.segment import SegmentReader
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, decode_control
from headwater.plan.join_order.order import JoinOrder
from tests.support.oracle import same_rows
from tests.support.postgres import VERSIONS, Servers

JOIN = (
    "SELECT a.id, b.name, c.name AS c FROM a JOIN b ON b.id = a.b JOIN c ON c.id = b.c WHERE a.id < 20 "
    "ORDER BY a.id LIMIT 5"
)
SETUP = (
    "CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE b (id INTEGER PRIMARY KEY, c INTEGER, name TEXT)",
    "CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER)",
    "INSERT INTO c VALUES (1, 'x'), (2, 'y')",
    "INSERT INTO b VALUES (1, 1, 'p'), (2, 2, 'q'), (3, 1, 'r')",
    "INSERT INTO a VALUES (1, 1), (2, 3), (3, 2), (4, 2), (5, 1), (6, 3)",
)


def _made(path: Path) -> str:
    with closing(sqlite3.connect(path)) as db:
        for statement in SETUP:
            db.execute(statement)
        db.commit()
    return f"sqlite:///{path}"


@pytest.mark.parametrize("forced", ["incremental", "requery"])
def test_whatever_is_forced_the_rows_are_the_same(forced: str, tmp_path: Path) -> None:
    url = _made(tmp_path / "t.db")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data", strategy=forced) as db:
        live = db.query(JOIN, live=True)
        assert live.strategy == forced and f"strategy {forced}" in live.explain()
        assert live.wait(db.execute("INSERT INTO a VALUES (0, 2)"))
        assert [row["id"] for row in live.rows] == [0, 1, 2, 3, 4]
        assert same_rows(live.rows, db.query(JOIN), ordered=True)


def test_selective_is_forced_where_it_can_serve(tmp_path: Path) -> None:
    url = _made(tmp_path / "t.db")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data", strategy="selective") as db:
        live = db.query("SELECT a.id, b.name FROM a JOIN b ON b.id = a.b", live=True)
        assert live.strategy == "selective" and "strategy selective is forced" in live.explain()
        assert live.wait(db.execute("UPDATE b SET name = 'z' WHERE id = 3"))
        assert same_rows(live.rows, db.query(live.sql), ordered=False)
        with pytest.raises(headwater.UnsupportedQuery, match="cannot be selective, which is forced"):
            db.query("SELECT count(*) FROM a", live=True)


def test_a_query_that_cannot_be_incremental_is_refused_with_the_reason(tmp_path: Path) -> None:
    url = _made(tmp_path / "t.db")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data", strategy="incremental") as db:
        with pytest.raises(headwater.UnsupportedQuery, match="cannot be incremental, which is forced: OVER"):
            db.query("SELECT id, rank() OVER (ORDER BY b) AS r FROM a", live=True)
        with pytest.raises(headwater.UnsupportedQuery, match="cannot be incremental"):
            db.explain("SELECT id, rank() OVER (ORDER BY b) AS r FROM a")
        with pytest.raises(headwater.SqlError, match="no such table"):
            db.query("SELECT * FROM nowhere", live=True)


def test_on_postgresql_too(servers: Servers, tmp_path: Path) -> None:
    server = servers[VERSIONS[-1]]
    with server.database() as database:
        for forced in ("incremental", "requery", "selective"):
            with headwater.connect(
                server.url(database), runner="inline", data_dir=tmp_path / forced, strategy=forced
            ) as db:
                if forced == "incremental":
                    for statement in SETUP:
                        db.execute(statement)
                    with pytest.raises(headwater.UnsupportedQuery, match="cannot be incremental, which is forced"):
                        db.query("SELECT id, rank() OVER (ORDER BY b) AS r FROM a", live=True)
                live = db.query("SELECT a.id, b.name FROM a JOIN b ON b.id = a.b", live=True)
                assert live.strategy == forced
                assert live.wait(db.execute("UPDATE b SET name = name || 'z' WHERE id = 3"))
                assert same_rows(live.rows, db.query(live.sql), ordered=False)


@pytest.mark.parametrize("join_order", ["chosen", "written", 1, 2])
def test_the_order_of_joins_is_the_forced_one(join_order: str | int, tmp_path: Path) -> None:
    url = _made(tmp_path / "t.db")
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data", join_order=join_order) as db:
        live = db.query(JOIN, live=True)
        assert live.wait(db.execute("INSERT INTO a VALUES (0, 2)"))
        assert same_rows(live.rows, db.query(JOIN), ordered=True)
        order = _logged_order(tmp_path / "data")
        assert (order is None) == (join_order == "written")
        assert "join" in db.explain(JOIN)


def _logged_order(data: Path) -> JoinOrder | None:
    with closing(SegmentReader(Layout(data).log)) as reader:
        records = [decode_control(one) for one in reader.poll() if one.kind.name == "ACTIVATE"]
    [activate] = [one for one in records if isinstance(one, Activate)]
    return activate.order


def test_what_is_no_strategy_or_order_is_refused(tmp_path: Path) -> None:
    for options in ({"strategy": "guess"}, {"join_order": "best"}):
        with pytest.raises(headwater.HeadwaterError, match="expected a"):
            headwater.connect("memory://", runner="inline", data_dir=tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(headwater.HeadwaterError, match="options of an embedded database"):
        headwater.connect("ws://127.0.0.1:1", strategy="requery")
