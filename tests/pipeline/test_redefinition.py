"""Views that are dropped or redefined while live queries read them, and positions given out around changes of the
schema: rows that say they are right for a position are those of it, or the query is closed with the reason."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

PLACES = ["file", "elsewhere", "memory"]
FIRST = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT)",
    "CREATE TABLE b (id INTEGER PRIMARY KEY, x TEXT)",
    "INSERT INTO a VALUES (1, 'a')",
    "INSERT INTO b VALUES (1, 'b')",
    "CREATE VIEW v AS SELECT id, x FROM a",
    "CREATE VIEW w AS SELECT x FROM v",
)


class World:
    """A database, and somebody who writes to it: through us, or through a connection of their own."""

    def __init__(self, place: str, here: Path) -> None:
        self.path = here / "t.db"
        address = f"memory://{here.name}" if place == "memory" else f"sqlite:///{self.path}"
        self.db = headwater.connect(address, runner="inline", data_dir=here / "data")
        self.elsewhere = place == "elsewhere"
        for statement in FIRST:
            self.db.execute(statement)

    def write(self, *statements: str) -> int:
        """In one transaction; the position behind it."""
        if self.elsewhere:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
                for statement in ("BEGIN", *statements, "COMMIT"):
                    other.execute(statement)
            return self.db.position()
        with self.db.transaction() as tx:
            for statement in statements:
                tx.execute(statement)
        return tx.position


@pytest.fixture(params=PLACES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path)
    with made.db:
        yield made


@pytest.mark.parametrize("sql", ["SELECT x FROM v", "SELECT x FROM w", "SELECT x, rank() OVER () AS r FROM w"])
def test_a_view_that_is_redefined(world: World, sql: str) -> None:
    """Its rows are those of the new one, and its new tables are followed."""
    live = world.db.query(sql, live=True)
    assert [row["x"] for row in live.rows] == ["a"]
    assert live.wait(world.write("DROP VIEW v", "CREATE VIEW v AS SELECT id, x FROM b"))
    assert [row["x"] for row in live.rows] == ["b"] and live.state == "ready"
    assert live.wait(world.write("UPDATE b SET x = 'c'"))
    assert [row["x"] for row in live.rows] == ["c"]
    assert live.wait(world.write("INSERT INTO a VALUES (2, 'z')"))
    assert [row["x"] for row in live.rows] == ["c"]


def test_a_view_that_is_redefined_together_with_rows(world: World) -> None:
    live = world.db.query("SELECT x FROM v ORDER BY x", live=True)
    position = world.write(
        "INSERT INTO b VALUES (2, 'bb')",
        "DROP VIEW v",
        "CREATE VIEW v AS SELECT x FROM b",
        "DELETE FROM b WHERE id = 1",
    )
    assert live.wait(position) and live.rows == [{"x": "bb"}]
    assert live.wait(world.write("INSERT INTO b VALUES (3, 'c')")) and live.rows == [{"x": "bb"}, {"x": "c"}]


def test_a_view_that_is_dropped(world: World) -> None:
    live, other = world.db.query("SELECT x FROM v", live=True), world.db.query("SELECT x FROM b", live=True)
    position = world.write("DROP VIEW v")
    with pytest.raises(headwater.HeadwaterError, match="no such table: v"):
        live.wait(position)
    assert live.state == "closed"
    assert other.wait(world.write("INSERT INTO b VALUES (2, 'c')")) and len(other.rows) == 2


def test_a_view_that_gets_other_columns(world: World) -> None:
    live = world.db.query("SELECT * FROM v", live=True)
    position = world.write("DROP VIEW v", "CREATE VIEW v AS SELECT id FROM b")
    with pytest.raises(headwater.HeadwaterError, match="other columns: subscribe again"):
        live.wait(position)
    assert world.db.query("SELECT * FROM v", live=True).rows == [{"id": 1}]


def test_a_view_that_is_redefined_while_nobody_reads_it(world: World) -> None:
    """What it read was known from the query before, and its new table was not captured."""
    live = world.db.query("SELECT x FROM v", live=True)
    position = world.write("DROP VIEW v")
    with pytest.raises(headwater.HeadwaterError, match="no such table: v"):
        live.wait(position)
    world.write("CREATE VIEW v AS SELECT x FROM b")
    eventually(lambda: world.db.status()["windows"] == 0)
    again = world.db.query("SELECT x FROM v", live=True)
    assert again.rows == [{"x": "b"}]
    assert again.wait(world.write("UPDATE b SET x = 'c'")) and again.rows == [{"x": "c"}]


def test_a_view_that_is_redefined_while_nobody_runs(tmp_path: Path) -> None:
    """Nothing in the file tells of it: a view may be another one with every start."""
    first = World("file", tmp_path)
    with first.db:
        live = first.db.query("SELECT x FROM w", live=True)
        assert live.wait(first.write("UPDATE a SET x = 'aa'")) and live.rows == [{"x": "aa"}]
    with closing(sqlite3.connect(first.path, isolation_level=None)) as other:
        other.executescript("DROP VIEW v; CREATE VIEW v AS SELECT x FROM b; UPDATE b SET x = 'later'")
    with headwater.connect(f"sqlite:///{first.path}", runner="inline", data_dir=tmp_path / "data") as db:
        live = db.query("SELECT x FROM w", live=True)
        assert live.wait(db.position()) and live.rows == [{"x": "later"}]
        assert live.wait(db.execute("UPDATE b SET x = 'last'")) and live.rows == [{"x": "last"}]


def test_a_view_that_becomes_a_table(world: World) -> None:
    live = world.db.query("SELECT x FROM v", live=True)
    assert live.wait(world.write("DROP VIEW v", "CREATE TABLE v (x TEXT)", "INSERT INTO v VALUES ('t')"))
    assert live.rows == [{"x": "t"}]
    assert live.wait(world.write("UPDATE v SET x = 'u'")) and live.rows == [{"x": "u"}]


def test_a_view_over_a_view_whose_inner_one_goes(world: World) -> None:
    live = world.db.query("SELECT x FROM w", live=True)
    position = world.write("DROP VIEW v")
    with pytest.raises(headwater.HeadwaterError, match="v"):
        live.wait(position)


def test_a_view_of_nobody_asks_nobody_again(world: World) -> None:
    live = world.db.query("SELECT x FROM a", live=True)
    seq = live.seq
    assert live.wait(world.write("CREATE VIEW nobody AS SELECT 1 AS one"))
    assert live.wait(world.write("DROP VIEW nobody", "INSERT INTO b VALUES (5, 'e')"))
    assert live.seq == seq and live.rows == [{"x": "a"}]


LIVE = (
    "SELECT {x} FROM a",
    "SELECT {x}, count(*) AS n FROM a GROUP BY 1",
    "SELECT {x}, rank() OVER () AS r FROM a",
    "SELECT a.{x}, b.x AS z FROM a JOIN b ON b.id = a.id",
    "SELECT upper({x}) AS u, date(id) AS d FROM a",
)
RESHAPED = (
    ["ALTER TABLE a RENAME COLUMN x TO y", "INSERT INTO a VALUES (2, 'z')"],
    ["DROP TABLE a", "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT)", "INSERT INTO a VALUES (7, 'new')"],
    ["ALTER TABLE a RENAME TO old", "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT)", "INSERT INTO a VALUES (7, 'z')"],
)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("statements", RESHAPED)
@pytest.mark.parametrize("sql", LIVE)
def test_nobody_waits_for_a_position_and_gets_the_rows_of_before(
    world: World, sql: str, statements: list[str], together: bool
) -> None:
    """It is closed; and who asks again at once, gets the rows and keeps them."""
    world.db.execute("DROP VIEW w")
    world.db.execute("DROP VIEW v")
    live = world.db.query(sql.format(x="x"), live=True)
    positions = [world.write(*statements)] if together else [world.write(statement) for statement in statements]
    for position in positions:
        with pytest.raises(headwater.HeadwaterError, match="closed"):
            live.wait(position)
    assert live.state == "closed"
    again = world.db.query(sql.format(x="y" if "RENAME COLUMN" in statements[0] else "x"), live=True)
    world.db.verify(again)
    position = world.write("INSERT INTO a VALUES (9, 'nine')")
    assert again.wait(position) and again.state == "ready"
    world.db.verify(again)


@pytest.mark.parametrize("sql", ["SELECT x FROM a", "SELECT x, rank() OVER () AS r FROM a"])
def test_a_query_that_comes_just_after_a_table_was_replaced_stays(world: World, sql: str) -> None:
    """Also one that was live before, and one that joins it."""
    world.db.execute("DROP VIEW w")
    world.db.execute("DROP VIEW v")
    for round in range(5):
        world.write(
            "DROP TABLE a", "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT)", f"INSERT INTO a VALUES ({round}, 'r')"
        )
        live = world.db.query(sql, live=True)
        assert [row["x"] for row in live.rows] == ["r"]
        assert live.wait(world.write("UPDATE a SET x = 's'")), "closed"
        assert [row["x"] for row in live.rows] == ["s"] and live.state == "ready"


def test_what_is_committed_elsewhere_is_noticed_by_itself(tmp_path: Path) -> None:
    world = World("elsewhere", tmp_path)
    with world.db:
        live = world.db.query("SELECT x FROM v", live=True)
        with closing(sqlite3.connect(world.path)) as other:
            other.executescript("BEGIN; DROP VIEW v; CREATE VIEW v AS SELECT x FROM b; COMMIT;")
            eventually(lambda: live.rows == [{"x": "b"}])
            other.execute("UPDATE b SET x = 'later'")
            other.commit()
            eventually(lambda: live.rows == [{"x": "later"}])
