"""As `test_redefinition`, on PostgreSQL: with an event trigger that tells of DDL, and by a role that may have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import headwater
from tests.support.postgres import VERSIONS, Servers
from tests.support.processes import eventually

_PATIENCE_S = 120.0
FIRST = (
    "CREATE TABLE a (id int PRIMARY KEY, x text)",
    "CREATE TABLE b (id int PRIMARY KEY, x text)",
    "INSERT INTO a VALUES (1, 'a')",
    "INSERT INTO b VALUES (1, 'b')",
    "CREATE VIEW v AS SELECT id, x FROM a",
    "CREATE VIEW w AS SELECT x FROM v",
    "CREATE FUNCTION said(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1 || '!' $$",
)


class World:
    """A database, and somebody else who writes to it."""

    def __init__(self, other: psycopg.Connection[object], db: headwater.Database) -> None:
        self.other, self.db = other, db

    def write(self, *statements: str) -> int:
        """In one transaction; the position behind it."""
        with self.other.transaction():
            for statement in statements:
                self.other.execute(statement.encode())
        return self.db.position()


@pytest.fixture(params=["event trigger", "none"])
def world(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[World]:
    server = servers[VERSIONS[-1]]
    with server.database() as database, server.connect(database) as admin:
        role = "postgres"
        if request.param == "none":
            role = "plain"
            admin.execute("DROP ROLE IF EXISTS plain")
            admin.execute("CREATE ROLE plain LOGIN REPLICATION")
            admin.execute(f"GRANT CREATE ON DATABASE {database} TO plain".encode())
            admin.execute("GRANT ALL ON SCHEMA public TO plain")
        url = server.url(database).replace("postgres@", f"{role}@")
        with psycopg.connect(url, autocommit=True) as other:
            for statement in FIRST:
                other.execute(statement.encode())
            with headwater.connect(url, runner="inline", data_dir=tmp_path) as db:
                yield World(other, db)
                if role == "plain":
                    assert other.execute("SELECT count(*) FROM pg_event_trigger").fetchone() == (0,)
        if request.param == "none":
            admin.execute("DROP OWNED BY plain CASCADE")
            admin.execute("DROP ROLE plain")


@pytest.mark.slow
def test_a_view_that_is_redefined(world: World) -> None:
    sqls = ("SELECT x FROM v", "SELECT x FROM w", "SELECT x, rank() OVER (ORDER BY x) AS r FROM w")
    lives = [world.db.query(sql, live=True) for sql in sqls]
    assert {row["x"] for live in lives for row in live.rows} == {"a"}
    steps = (
        (["CREATE OR REPLACE VIEW v AS SELECT id, x FROM b"], "b"),
        (["UPDATE b SET x = 'c'"], "c"),
        (["INSERT INTO a VALUES (2, 'z')"], "c"),
        (["UPDATE b SET x = 'no'", "CREATE OR REPLACE VIEW v AS SELECT id, x FROM a WHERE id = 2"], "z"),
        (["UPDATE a SET x = 'y' WHERE id = 2"], "y"),
        (["ALTER VIEW v RENAME TO old", "CREATE VIEW v AS SELECT 1 AS id, max(x) AS x FROM a",
          "CREATE OR REPLACE VIEW w AS SELECT x FROM v"], "y"),
    )  # fmt: skip
    for statements, expected in steps:
        position = world.write(*statements)
        for live in lives:
            assert live.wait(position, timeout=_PATIENCE_S) and live.state == "ready"
            assert [row["x"] for row in live.rows] == [expected], (live.sql, statements)


@pytest.mark.slow
def test_a_view_that_is_dropped_or_gets_other_columns(world: World) -> None:
    one, two = world.db.query("SELECT x FROM w", live=True), world.db.query("SELECT * FROM v", live=True)
    other = world.db.query("SELECT x FROM b", live=True)
    position = world.write("DROP VIEW v CASCADE", "CREATE VIEW v AS SELECT id FROM b")
    with pytest.raises(headwater.HeadwaterError, match='relation "w" does not exist'):
        one.wait(position, timeout=_PATIENCE_S)
    with pytest.raises(headwater.HeadwaterError, match="other columns: subscribe again"):
        two.wait(position, timeout=_PATIENCE_S)
    assert world.db.query("SELECT * FROM v", live=True).rows == [{"id": 1}]
    assert other.wait(world.write("INSERT INTO b VALUES (2, 'c')"), timeout=_PATIENCE_S) and len(other.rows) == 2


@pytest.mark.slow
def test_a_view_whose_column_is_renamed(world: World) -> None:
    """Its query stays as it was, so the rule that holds it does not change."""
    live, whole = world.db.query("SELECT x FROM v", live=True), world.db.query("SELECT count(*) AS n FROM v", live=True)
    position = world.write("ALTER VIEW v RENAME COLUMN x TO y")
    with pytest.raises(headwater.HeadwaterError, match='column "x" does not exist'):
        live.wait(position, timeout=_PATIENCE_S)
    assert whole.wait(position, timeout=_PATIENCE_S) and whole.rows == [{"n": 1}]


@pytest.mark.slow
def test_a_view_that_is_redefined_while_nobody_reads_it(world: World) -> None:
    """What it read was known from the query before, and its new table was not captured."""
    live = world.db.query("SELECT x FROM v", live=True)
    position = world.write("DROP VIEW v CASCADE")
    with pytest.raises(headwater.HeadwaterError, match='relation "v" does not exist'):
        live.wait(position, timeout=_PATIENCE_S)
    world.write("CREATE VIEW v AS SELECT x FROM b")
    eventually(lambda: world.db.status()["windows"] == 0)
    again = world.db.query("SELECT x FROM v", live=True)
    assert again.rows == [{"x": "b"}]
    assert again.wait(world.write("UPDATE b SET x = 'c'"), timeout=_PATIENCE_S) and again.rows == [{"x": "c"}]


@pytest.mark.slow
def test_a_function_that_is_replaced(world: World) -> None:
    live = world.db.query("SELECT said(x) AS s FROM a", live=True)
    assert live.rows == [{"s": "a!"}]
    position = world.write(
        "CREATE OR REPLACE FUNCTION said(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1 || '?' $$"
    )
    assert live.wait(position, timeout=_PATIENCE_S) and live.rows == [{"s": "a?"}]


def test_a_materialised_view_is_refused_with_the_reason(world: World) -> None:
    """REFRESH tells nobody what changed."""
    world.write("CREATE MATERIALIZED VIEW m AS SELECT x FROM a")
    with pytest.raises(headwater.HeadwaterError, match="m is a materialised view: it cannot be watched"):
        world.db.query("SELECT x FROM m", live=True)


LIVE = (
    "SELECT {x} FROM a",
    "SELECT {x}, count(*) AS n FROM a GROUP BY 1",
    "SELECT {x}, rank() OVER () AS r FROM a",
    "SELECT upper({x}) || to_char(id, '999') AS u FROM a",
)
TABLE = "CREATE TABLE a (id int PRIMARY KEY, x text)"
RESHAPED = (
    ["ALTER TABLE a RENAME COLUMN x TO y", "INSERT INTO a VALUES (2, 'z')"],
    ["DROP TABLE a", TABLE, "INSERT INTO a VALUES (7, 'new')"],
    ["ALTER TABLE a RENAME TO old", TABLE, "INSERT INTO a VALUES (7, 'z')"],
)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("statements", RESHAPED, ids=lambda statements: statements[0][:25])
def test_nobody_waits_for_a_position_and_gets_the_rows_of_before(
    world: World, statements: list[str], together: bool
) -> None:
    """They are closed; and who asks again at once, gets the rows and keeps them."""
    world.write("DROP VIEW w, v")
    lives = [world.db.query(sql.format(x="x"), live=True) for sql in LIVE]
    before = [list(live.rows) for live in lives]
    positions = [world.write(*statements)] if together else [world.write(statement) for statement in statements]
    for live, shown in zip(lives, before, strict=True):
        for position in positions:
            with pytest.raises(headwater.HeadwaterError, match="closed"):
                live.wait(position, timeout=_PATIENCE_S)
        assert live.rows == shown
    again = [world.db.query(sql.format(x="y" if "COLUMN" in statements[0] else "x"), live=True) for sql in LIVE]
    position = world.write("INSERT INTO a VALUES (9, 'nine')")
    for live in again:
        assert live.wait(position, timeout=_PATIENCE_S) and live.state == "ready"
        world.db.verify(live)


TYPED = (
    "CREATE SCHEMA s",
    "CREATE TYPE s.mood AS ENUM ('bad', 'good')",
    "CREATE TYPE s.point AS (x int, y int)",
    "CREATE TABLE s.t (id int PRIMARY KEY, m s.mood, p s.point)",
    "INSERT INTO s.t VALUES (1, 'bad', (1, 2))",
)
ELSEWHERE = (
    "ALTER TYPE s.mood RENAME VALUE 'bad' TO 'worse'",
    "ALTER TYPE s.point ADD ATTRIBUTE z int",
    "ALTER SCHEMA s RENAME TO other",
    "ALTER TABLE s.t DROP CONSTRAINT t_pkey",
    "DROP TYPE s.mood CASCADE",
    "DROP SCHEMA s CASCADE",
)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ELSEWHERE)
def test_what_changes_a_table_from_elsewhere_is_told_before_a_position_behind_it(world: World, statement: str) -> None:
    world.write(*TYPED)
    lives = [world.db.query(sql, live=True) for sql in ("SELECT * FROM s.t", "SELECT m, rank() OVER () AS r FROM s.t")]
    position = world.write(statement)
    for live in lives:
        with pytest.raises(headwater.HeadwaterError, match="closed"):
            live.wait(position, timeout=_PATIENCE_S)


@pytest.mark.slow
def test_a_query_that_comes_just_after_a_table_was_replaced_stays(world: World) -> None:
    world.write("DROP VIEW w, v")
    for round in range(3):
        world.write("DROP TABLE a", TABLE, f"INSERT INTO a VALUES ({round}, 'r')")
        lives = [world.db.query(sql.format(x="x"), live=True) for sql in LIVE]
        assert [row["x"] for live in lives[:3] for row in live.rows] == ["r"] * 3
        position = world.write("UPDATE a SET x = 's'")
        assert all(live.wait(position, timeout=_PATIENCE_S) for live in lives)
        assert [row["x"] for live in lives[:3] for row in live.rows] == ["s"] * 3


@pytest.mark.slow
def test_what_is_committed_elsewhere_is_noticed_by_itself(world: World) -> None:
    live = world.db.query("SELECT x FROM v", live=True)
    with world.other.transaction():
        world.other.execute("CREATE OR REPLACE VIEW v AS SELECT id, x FROM b")
    eventually(lambda: live.rows == [{"x": "b"}], _PATIENCE_S)
    world.other.execute("UPDATE b SET x = 'later'")
    eventually(lambda: live.rows == [{"x": "later"}], _PATIENCE_S)
