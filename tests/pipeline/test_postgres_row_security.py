"""Row-level security that applies to the role we connect as: such a table is refused, and ends where it is live; its
policies never decide which rows a query has. And a change that cannot be applied concerns its table alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.errors import HeadwaterError
from headwater.sources.doctor import DoctorScope, Severity
from headwater.sources.postgres.doctor.doctor import PostgresDoctor
from tests.support.databases import place, rows, values
from tests.support.postgres import VERSIONS, Servers

NOTES = {
    "incremental": "SELECT id, body FROM notes",
    "selective": "SELECT id, quote_literal(body) AS body FROM notes",
    "requery": "SELECT id, body, rank() OVER (ORDER BY id) AS r FROM notes",
}
ROLE = "headwater_bound"
_FORCED = "ALTER TABLE notes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"


@dataclass(frozen=True, slots=True)
class There:
    """A database, as its administrator and as a role that owns its tables."""

    url: str
    admin: psycopg.Connection[Any]

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.admin.execute(statement.encode())


@pytest.fixture
def there(servers: Servers) -> Iterator[There]:
    server = servers[VERSIONS[-1]]
    with server.database() as database, server.connect(database) as admin:
        there = There(server.url(database).replace("postgres@", f"{ROLE}@"), admin)
        there.run(
            f"CREATE ROLE {ROLE} LOGIN REPLICATION",
            f"GRANT CREATE ON DATABASE {database} TO {ROLE}",
            f"GRANT ALL ON SCHEMA public TO {ROLE}",
            "CREATE TABLE notes (id int PRIMARY KEY, owner text, body text)",
            f"INSERT INTO notes VALUES (1, '{ROLE}', 'mine'), (2, 'bob', 'secret')",
            "CREATE POLICY own ON notes USING (owner = current_user)",
            f"ALTER TABLE notes OWNER TO {ROLE}",
            "CREATE TABLE plain (id int PRIMARY KEY, v int)",
            "INSERT INTO plain VALUES (1, 1)",
            f"ALTER TABLE plain OWNER TO {ROLE}",
        )
        yield there
        there.run(f"REASSIGN OWNED BY {ROLE} TO postgres", f"DROP OWNED BY {ROLE}")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (ROLE,))
        there.run(f"DROP ROLE {ROLE}")


def _goes_on(there: There, db: headwater.Database, plain: headwater.LiveResult) -> None:
    there.run("UPDATE plain SET v = v + 1")
    assert plain.wait(db.position()) and (plain.state, plain.resyncs) == ("ready", 0)
    assert values(plain, "v") == [there.admin.execute("SELECT v FROM plain").fetchone()[0]]  # type: ignore[index]


@pytest.mark.parametrize("strategy", NOTES)
def test_a_table_whose_rows_are_hidden_from_us_is_refused(there: There, tmp_path: Path, strategy: str) -> None:
    there.run(_FORCED)
    with headwater.connect(there.url, runner="inline", data_dir=tmp_path) as db:
        plain = db.query("SELECT id, v FROM plain", live=True)
        with pytest.raises(HeadwaterError, match="row-level security of table notes") as refused:
            db.query(NOTES[strategy], live=True)
        assert "BYPASSRLS" in (refused.value.hint or "")
        there.run("UPDATE notes SET body = 'changed' WHERE id = 2")
        _goes_on(there, db, plain)
        there.run(f"ALTER ROLE {ROLE} BYPASSRLS")
        live = db.query(NOTES[strategy], live=True)
        assert (live.strategy, values(live)) == (strategy, [1, 2])


@pytest.mark.parametrize(
    "statement",
    [
        _FORCED,
        f"ALTER ROLE {ROLE} NOBYPASSRLS",
        "ALTER TABLE notes OWNER TO postgres",
        "UPDATE notes SET body = 'changed' WHERE id = 2",
    ],
)
def test_a_live_table_whose_rows_are_hidden_from_now_on_ends(there: There, tmp_path: Path, statement: str) -> None:
    """Its queries are told why; others go on. While it is not hidden, policies change nothing."""
    there.run("ALTER TABLE notes ENABLE ROW LEVEL SECURITY", f"GRANT SELECT ON notes TO {ROLE}")
    if "NOBYPASSRLS" in statement:
        there.run(f"ALTER ROLE {ROLE} BYPASSRLS", _FORCED)
    with headwater.connect(there.url, runner="inline", data_dir=tmp_path) as db:
        plain, *notes = (db.query(sql, live=True) for sql in ("SELECT id, v FROM plain", *NOTES.values()))
        there.run(statement, "UPDATE notes SET body = body || '!' WHERE id = 2")
        if statement.startswith("UPDATE"):
            assert all(live.wait(db.position()) for live in notes)
            assert {row["body"] for row in rows(notes[0])} == {"mine", "changed!"}
            _goes_on(there, db, plain)
            return
        position = db.position()
        for live in notes:
            with pytest.raises(HeadwaterError, match="closed"):
                live.wait(position)
        assert all("row-level security" in str(live.reason) for live in notes), [live.reason for live in notes]
        _goes_on(there, db, plain)
        with pytest.raises(HeadwaterError, match="row-level security"):
            db.query(NOTES["incremental"], live=True)
        there.run("ALTER TABLE notes DISABLE ROW LEVEL SECURITY", f"ALTER TABLE notes OWNER TO {ROLE}")
        assert len(db.query(NOTES["incremental"], live=True).rows) == 2


def test_a_table_that_is_hidden_while_we_are_away_ends(there: There, tmp_path: Path) -> None:
    with headwater.connect(there.url, runner="inline", data_dir=tmp_path) as db:
        db.query(NOTES["incremental"], live=True)
        db.query("SELECT id, v FROM plain", live=True)
    there.run(_FORCED, "UPDATE notes SET body = 'changed' WHERE id = 2")
    with headwater.connect(there.url, runner="inline", data_dir=tmp_path) as db:
        with pytest.raises(HeadwaterError, match="row-level security"):
            db.query(NOTES["incremental"], live=True)
        _goes_on(there, db, db.query("SELECT id, v FROM plain", live=True))


@pytest.mark.parametrize("forced", [True, False])
def test_the_doctor_says_whether_it_applies(there: There, forced: bool) -> None:
    there.run(_FORCED if forced else "ALTER TABLE notes ENABLE ROW LEVEL SECURITY")
    doctor = PostgresDoctor(there.admin.info.dsn, DoctorScope(role=ROLE))
    try:
        found = [one for one in doctor.examine() if one.subject == "table notes" and "row-level" in one.found]
    finally:
        doctor.close()
    assert [(one.state, one.fix) for one in found] == [(Severity.BAD, f'ALTER ROLE "{ROLE}" BYPASSRLS')] * forced


@pytest.mark.parametrize("many", [1, 500], ids=["row by row", "as columns"])
@pytest.mark.parametrize("change", ["UPDATE notes SET body = 'x'", "DELETE FROM notes"])
def test_a_change_that_cannot_be_applied_concerns_its_table_alone(
    there: There, tmp_path: Path, change: str, many: int
) -> None:
    """A row that we do not know, whatever the reason: it stopped all capture for everybody."""
    there.run(f"INSERT INTO notes SELECT n, '', '' FROM generate_series(10, {10 + many}) n")
    with place("embedded", tmp_path, url=there.url) as here:
        plain, *notes = (here.db.query(sql, live=True) for sql in ("SELECT id, v FROM plain", *NOTES.values()))
        _forget_rows(here.server.pipeline.source, "notes")
        there.run(change, "INSERT INTO notes VALUES (7, '', '')")
        position = here.db.position()
        assert all(live.wait(position) for live in notes)
        found = there.admin.execute("SELECT id, body FROM notes").fetchall()
        assert sorted((row["id"], row["body"]) for row in notes[0].rows) == sorted(found)
        assert [len(live.rows) for live in notes] == [len(found)] * 3
        assert [live.resyncs for live in notes] == [1] * 3
        _goes_on(there, here.db, plain)


def _forget_rows(source: Any, table: str) -> None:
    with source._slot.stream.moved:
        (oid,) = (oid for oid, one in source._slot.row_cache.captures.items() if one.table.name == table)
        source._slot.row_cache.purge(oid)
