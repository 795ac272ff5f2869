"""The doctor on real servers: what it finds is so, and what it says mends it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.cli import main
from headwater.model.errors import SourceError
from headwater.sources.doctor import DoctorScope, Finding, Severity, apply_fixes, is_well
from headwater.sources.postgres.catalog.publication import name_for
from headwater.sources.postgres.doctor.doctor import PostgresDoctor
from headwater.sources.postgres.source import PostgresSource
from tests.support.postgres import VERSIONS, Postgres, Servers

Db = psycopg.Connection[Any]


def _examined(url: str, scope: DoctorScope | None = None) -> dict[str, list[Finding]]:
    doctor = PostgresDoctor(url, scope or DoctorScope())
    try:
        found: dict[str, list[Finding]] = {}
        for finding in doctor.examine():
            found.setdefault(finding.subject, []).append(finding)
        return found
    finally:
        doctor.close()


def _mended(url: str, scope: DoctorScope | None = None) -> list[str | None]:
    doctor = PostgresDoctor(url, scope or DoctorScope())
    try:
        return [one.refused for one in apply_fixes(doctor)]
    finally:
        doctor.close()


def test_a_database_that_is_ready(url: str, db: Db, capsys: pytest.CaptureFixture[str]) -> None:
    db.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
    assert main(["doctor", url]) == 0
    assert "1 of 1 ready" in capsys.readouterr().out


@pytest.fixture
def unready() -> Iterator[Postgres]:
    """As it comes: wal_level is replica, and there is room for no slot."""
    server = Postgres(VERSIONS[0], {"wal_level": None, "max_replication_slots": None})
    server.start()
    with server.connect() as db:
        db.execute("ALTER SYSTEM SET max_replication_slots = 0")
    server.stop()
    server.start()
    yield server
    server.remove()


def test_a_server_that_does_not_log_enough(unready: Postgres, servers: Servers, tmp_path: Path) -> None:
    """What it needs is a setting and a restart; afterwards a table can be captured."""
    del servers  # it needs none of those, but is one of the tests that need a server
    before = _examined(unready.url())
    assert [one.fix for one in before["wal_level"]] == ["ALTER SYSTEM SET wal_level = logical"]
    assert before["max_replication_slots"][0].state is Severity.BAD
    with pytest.raises(SourceError, match="wal_level"):
        _captured(unready.url(), tmp_path)
    assert set(_mended(unready.url())) == {None}
    waiting = _examined(unready.url())["wal_level"][0]
    assert (waiting.state, waiting.fix, waiting.then) == (Severity.BAD, "", "restart PostgreSQL")
    unready.stop()
    unready.start()
    assert is_well([one for found in _examined(unready.url()).values() for one in found])
    _captured(unready.url(), tmp_path)


def _captured(url: str, directory: Path) -> None:
    source = PostgresSource(url)
    try:
        source.attach(directory)
        source.execute("CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY)")
        source.capture("t")
    finally:
        source.close()


@pytest.fixture
def poor(db: Db, url: str) -> Iterator[str]:
    """The address of the database for a role that may do nothing but log in."""
    db.execute("DROP ROLE IF EXISTS poor")
    db.execute("CREATE ROLE poor LOGIN")
    database = url.rpartition("/")[2]
    db.execute(f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC".encode())
    db.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
    db.execute("INSERT INTO orders VALUES (1, 5)")
    yield url.replace("postgres@", "poor@")
    db.execute(f"GRANT TEMPORARY ON DATABASE {database} TO PUBLIC".encode())
    db.execute("DROP OWNED BY poor CASCADE")
    db.execute("DROP ROLE poor")


def test_a_role_without_rights(poor: str, url: str, db: Db, tmp_path: Path) -> None:
    missing = [one for found in _examined(poor).values() for one in found if one.state is Severity.BAD]
    assert [one.needed.split(",")[0] for one in missing] == [
        "REPLICATION",
        "CREATE",
        "TEMPORARY",
        'USAGE on SCHEMA "public"',
        'SELECT on "public"."orders"',
        "ownership",
    ]
    for finding in missing:
        db.execute(finding.fix.encode())
    assert is_well([one for found in _examined(poor).values() for one in found])
    source = PostgresSource(poor)
    try:
        source.attach(tmp_path)
        source.capture("orders")
        start = source.position()
        db.execute("UPDATE orders SET total = 6")
        assert any(source.changes(start, 5))
    finally:
        source.close()


def test_a_role_that_may_do_more_than_read_is_noted(poor: str, url: str, db: Db) -> None:
    """Never mended for the user: it is somebody's role."""
    (user,) = db.execute("SELECT current_user").fetchone() or ("",)
    [note] = [one for one in _examined(url)[f"role {user}"] if one.found == "superuser" and one.state is Severity.NOTE]
    assert note.by_hand and "pg_read_all_data" in note.fix
    assert "none" in [one.found for one in _examined(poor)["role poor"]]
    db.execute("GRANT pg_read_server_files TO poor")
    try:
        assert "pg_read_server_files" in [one.found for one in _examined(poor)["role poor"]]
    finally:
        db.execute("REVOKE pg_read_server_files FROM poor")


def test_what_a_role_may_not_mend_is_refused_in_postgresqls_words(
    poor: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", poor, "--fix"]) == 1
    said = capsys.readouterr().err
    assert "refused: ALTER ROLE" in said
    assert "done:" not in said  # PostgreSQL only warns that it granted nothing
    assert main(["doctor", url, "--fix", "--role", "poor"]) == 1
    told = capsys.readouterr().err
    assert 'done: ALTER ROLE "poor" REPLICATION' in told
    (owner,) = [one for one in _examined(poor)["table orders"] if one.state is Severity.BAD]
    assert owner.by_hand
    assert owner.fix == 'ALTER TABLE "public"."orders" OWNER TO "poor"'


@pytest.mark.parametrize(
    ("create", "fix"),
    [
        ("CREATE TABLE t (id int)", 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL'),
        ("CREATE TABLE t (id int UNIQUE)", 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL'),
        (
            "CREATE TABLE t (id int NOT NULL UNIQUE)",
            'ALTER TABLE "public"."t" REPLICA IDENTITY USING INDEX "t_id_key"',
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            'ALTER TABLE "public"."t" REPLICA IDENTITY DEFAULT',
        ),
    ],
)
def test_a_table_without_a_replica_identity(url: str, db: Db, tmp_path: Path, create: str, fix: str) -> None:
    db.execute(create.encode())
    (finding,) = _examined(url)["table t"]
    assert finding.fix == fix
    _mended(url)
    assert all(one.state is not Severity.BAD for one in _examined(url).get("table t", []))
    _captured(url, tmp_path)
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("UPDATE t SET id = 2")


def test_only_the_tables_that_are_asked_about(url: str, db: Db) -> None:
    db.execute("CREATE TABLE good (id int PRIMARY KEY)")
    db.execute("CREATE TABLE bare (id int)")
    assert main(["doctor", url, "--table", "good", "--fix"]) == 0
    assert main(["doctor", url]) == 1
    assert main(["doctor", url, "--table", "nope"]) == 1


def test_slots_of_ours_are_told_with_what_they_hold_back(url: str, db: Db, tmp_path: Path) -> None:
    _captured(url, tmp_path)
    (slot,) = _examined(url)[f"slot {name_for(tmp_path)}"]
    assert slot.state is Severity.BAD
    assert slot.by_hand
    assert "not in use" in slot.found
    assert f"publication {name_for(tmp_path)}" not in _examined(url)
    db.execute(slot.fix.encode())
    assert f"slot {name_for(tmp_path)}" not in _examined(url)
    (publication,) = _examined(url)[f"publication {name_for(tmp_path)}"]
    assert publication.state is Severity.NOTE
    assert publication.by_hand
    db.execute(publication.fix.encode())
    assert f"publication {name_for(tmp_path)}" not in _examined(url)


def test_findings_for_programs(url: str, db: Db, capsys: pytest.CaptureFixture[str]) -> None:
    db.execute("CREATE TABLE bare (id int)")
    assert main(["doctor", url, "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (bare,) = [one for one in found if one["subject"] == "table bare"]
    assert (bare["state"], bare["by_hand"]) == ("bad", False)


def test_a_role_that_is_not_there(url: str) -> None:
    with pytest.raises(SourceError, match="there is no role"):
        _examined(url, DoctorScope("nosuch"))


def test_ddl_of_a_role_without_rights_is_not_undone_by_our_trigger(poor: str, db: Db, url: str, tmp_path: Path) -> None:
    _captured(url, tmp_path)
    db.execute("CREATE SCHEMA own AUTHORIZATION poor")
    with psycopg.connect(poor, autocommit=True) as other:
        other.execute("CREATE TABLE own.mine (id int)")
        other.execute("ALTER TABLE own.mine ADD COLUMN a int")
        other.execute("DROP TABLE own.mine")


def test_a_role_that_an_administrator_made_ready_may_begin(poor: str, url: str, db: Db, tmp_path: Path) -> None:
    """The event trigger is the administrator's: it is used, and nobody else needs to take it away."""
    _mended(url, DoctorScope("poor"))
    db.execute("ALTER TABLE orders OWNER TO poor")
    source = PostgresSource(poor)
    try:
        source.attach(tmp_path)
        source.capture("orders")
        assert db.execute("SELECT evtname FROM pg_event_trigger").fetchall() == [("headwater_ddl",)]
        assert source.detach() == [f"replication slot {name_for(tmp_path)}", f"publication {name_for(tmp_path)}"]
    finally:
        source.close()


def test_a_table_that_cannot_be_live_is_one_note(url: str, db: Db) -> None:
    """Not what else it would lack, and nothing of those that inherit from it but their own."""
    db.execute("CREATE UNLOGGED TABLE quick (id int)")
    db.execute("CREATE TABLE parent (id int)")
    db.execute("CREATE TABLE child () INHERITS (parent)")
    found = _examined(url)
    assert [one.found for one in found["table quick"]] == ["unlogged: no live queries"]
    assert [one.found for one in found["table parent"]] == ["other tables inherit from it: no live queries"]
    assert [one.fix for one in found["table child"]] == ['ALTER TABLE "public"."child" REPLICA IDENTITY FULL']
    (tables,) = found["tables"]
    assert (tables.state, tables.found) == (Severity.NOTE, "0 of 3 ready")
