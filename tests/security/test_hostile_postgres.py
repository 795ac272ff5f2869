"""Hostile SQL on PostgreSQL, as a superuser, who may do anything: see `hostile`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.errors import HeadwaterError, PermissionDenied
from tests.security.hostile import SECRET, attack, follows
from tests.support.databases import WAYS, Place, place
from tests.support.postgres import VERSIONS, Servers

_PLACES = (  # where an expression may stand
    "SELECT {} AS x FROM t",
    "SELECT a FROM t ORDER BY {}",
    "WITH c AS MATERIALIZED (SELECT {} AS x) SELECT c.x FROM c, t",
)
_CALLS = (
    "pg_read_file('PG_VERSION')",
    "pg_read_binary_file('PG_VERSION')",
    "pg_stat_file('PG_VERSION')",
    "pg_ls_dir('.')",
    "pg_ls_waldir()",
    "pg_current_logfile()",
    "lo_import('/etc/hostname')",
    "lo_export(4242, '/tmp/headwater-hostile')",
    "lo_get(4242)",
    "lo_create(0)",
    "lo_unlink(4242)",
    "lo_open(4242, 262144)",
    "pg_terminate_backend(pg_backend_pid())",
    "pg_cancel_backend(pg_backend_pid())",
    "pg_reload_conf()",
    "pg_rotate_logfile()",
    "pg_switch_wal()",
    "pg_create_restore_point('x')",
    "pg_promote()",
    "pg_drop_replication_slot('x')",
    "pg_create_physical_replication_slot('hostile')",
    "pg_create_logical_replication_slot('hostile', 'pgoutput')",
    "pg_replication_origin_create('hostile')",
    "pg_logical_emit_message(false, 'headwater', 'forged')",
    "pg_export_snapshot()",
    "pg_stat_reset()",
    "pg_advisory_lock(1)",
    "pg_try_advisory_lock(2)",
    "pg_notify('a', 'b')",
    "pg_sleep(0)",
    "pg_get_userbyid(10)",
    "pg_stat_get_activity(NULL)",
    "pg_show_all_settings()",
    "pg_hba_file_rules()",
    "set_config('transaction_read_only', 'off', true)",
    "set_config('default_transaction_read_only', 'off', false)",
    "set_config('role', 'postgres', false)",
    "current_setting('headwater.secret')",
    "current_setting('data_directory')",
    "current_query()",
    "nextval('counter')",
    "setval('counter', 99)",
    "setseed(0.5)",
    "txid_current()",
    "query_to_xml('SELECT rolpassword FROM pg_authid', true, false, '')",
    "query_to_xml('DELETE FROM t', true, false, '')",
    "table_to_xml('pg_authid', true, false, '')",
    "schema_to_xml('public', true, false, '')",
    "database_to_xml(true, false, '')",
    "ts_stat('SELECT to_tsvector(rolpassword) FROM pg_authid')",
    "ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
    "dblink('dbname=postgres', 'SELECT 1')",
    "binary_upgrade_set_next_pg_authid_oid(1)",
    "writes()",
    "writes_as_owner()",
)
_CATALOGS = (
    "pg_authid",
    "pg_shadow",
    "pg_roles",
    "pg_auth_members",
    "pg_user_mapping",
    "pg_user_mappings",
    "information_schema.user_mapping_options",
    "pg_foreign_server",
    "pg_subscription",
    "pg_stat_activity",
    "pg_stat_replication",
    "pg_stat_ssl",
    "pg_stat_user_tables",
    "pg_prepared_statements",
    "pg_cursors",
    "pg_locks",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_statistic",
    "pg_stats",
    "pg_statistic_ext_data",
    "pg_settings",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_db_role_setting",
    "pg_config",
    "pg_replication_slots",
    "pg_publication",
    "pg_proc",
    "pg_rewrite",
    "pg_database",
    "PG_AUTHID",
    'pg_catalog."pg_authid"',
    "spies",
    "spies_of_spies",
)
_READS = (  # where a table may stand
    "SELECT * FROM {}",
    "SELECT t.a, to_json(other)::text AS x FROM t, {} AS other",
    "SELECT a FROM t WHERE EXISTS (SELECT FROM {} AS other WHERE other IS NOT NULL)",
)
_WRITES = (
    "INSERT INTO t VALUES (9, 'x')",
    "INSERT INTO t VALUES (9, 'x') RETURNING a",
    "WITH c AS (INSERT INTO t VALUES (9, 'x') RETURNING a) SELECT a FROM c",
    "WITH c AS (DELETE FROM t RETURNING a) SELECT a FROM c",
    "WITH c AS (UPDATE t SET b = 'x' RETURNING a) SELECT a FROM c",
    "UPDATE t SET b = 'x'",
    "DELETE FROM t",
    "MERGE INTO t USING quiet ON t.a = quiet.a WHEN MATCHED THEN DELETE",
    "TRUNCATE t",
    "SELECT a INTO stolen FROM t",
    "CREATE TABLE stolen AS SELECT a FROM t",
    "CREATE TEMP TABLE stolen AS SELECT a FROM t",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP TABLE t",
    "ALTER TABLE t RENAME TO u",
    "SELECT a FROM t FOR UPDATE",
    "SELECT a FROM t FOR NO KEY UPDATE",
    "SELECT a FROM t FOR SHARE",
    "SELECT a FROM t FOR KEY SHARE NOWAIT",
    "LOCK TABLE t",
    "COPY t TO '/tmp/headwater-hostile'",
    "COPY t TO STDOUT",
    "COPY t FROM PROGRAM 'echo 9'",
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "DO $$ BEGIN DELETE FROM t; END $$",
    "CALL writes()",
    "EXECUTE x",
    "PREPARE x AS SELECT 1",
    "DEALLOCATE ALL",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM c",
    "EXPLAIN ANALYZE DELETE FROM t",
    "SET transaction_read_only = off",
    "SET ROLE postgres",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "RESET ALL",
    "SHOW data_directory",
    "DISCARD ALL",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "VACUUM",
    "ANALYZE",
    "CHECKPOINT",
    "NOTIFY a, 'b'",
    "LISTEN a",
    "CREATE ROLE hostile SUPERUSER",
    "ALTER SYSTEM SET work_mem = '1GB'",
    "CREATE EXTENSION dblink",
    "REFRESH MATERIALIZED VIEW v",
)
_GARBLED = (
    "",
    ";",
    "--",
    "/*",
    "/* /* */ SELECT a FROM t",
    "SELECT a FROM t; DELETE FROM t",
    "SELECT a FROM t;;; DROP TABLE t; --",
    "SELECT a FROM t; COMMIT; DELETE FROM t",
    "SELECT 1; SELECT 2",
    "SELECT a FROM t) AS q; DELETE FROM t; --",
    "SELECT 'unterminated FROM t",
    'SELECT "unterminated FROM t',
    "SELECT $q$unterminated FROM t",
    "SELECT E'\\' FROM t; DELETE FROM t; --'",
    "SELECT U&'\\0061' AS x FROM t",
    "SELECT a FROM t\x00; DELETE FROM t",
    "SELECT '\x00' AS x FROM t",
    "SELECT a FROM t WHERE a = $1",
    "SELECT a FROM t WHERE a = $99999",
    "SELECT a FROM t WHERE a = 1/0",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + ", ".join(f"a AS c{n}" for n in range(1700)) + " FROM t",
    "SELECT repeat('x', 2000000000) AS x, row_number() OVER () AS n FROM t",
    "SELECT lpad('x', 2000000000) AS x, row_number() OVER () AS n FROM t",
    "SELECT 'pg_authid'::regclass AS x, a FROM t",
    "SELECT tableoid AS x FROM t",
    "SELECT xmin AS x FROM t",
    "SELECT ctid AS x FROM t",
    "TABLE pg_authid",
    "VALUES ((SELECT max(rolpassword) FROM pg_authid))",
    "SELECT (SELECT max(rolpassword) FROM pg_authid) AS x FROM t",
    "SELECT b FROM t UNION ALL SELECT rolpassword FROM pg_authid",
    "SELECT a FROM t WHERE b > ANY (SELECT rolpassword FROM pg_authid)",
    "SELECT * FROM t, LATERAL (SELECT rolpassword FROM pg_authid WHERE rolname <> b) AS q",
    "SELECT a FROM t TABLESAMPLE SYSTEM (50)",
)
STATEMENTS = (
    *(where.format(call) for call in _CALLS for where in _PLACES),
    *(where.format(table) for table in _CATALOGS for where in _READS),
    *_WRITES,
    *_GARBLED,
)
_SETUP = f"""
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE quiet (a int PRIMARY KEY);
CREATE SEQUENCE counter;
INSERT INTO t VALUES (1, 'one'), (2, 'two');
CREATE VIEW spies AS SELECT rolname, rolpassword FROM pg_authid;
CREATE VIEW spies_of_spies AS SELECT * FROM spies, pg_stat_activity;
CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'DELETE FROM t; SELECT 1';
CREATE FUNCTION writes_as_owner() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM t; SELECT 1';
SELECT lo_from_bytea(4242, '{SECRET}');
"""
_DUMP = """
SELECT (SELECT jsonb_agg(to_jsonb(t) ORDER BY a) FROM t), (SELECT last_value FROM counter),
       (SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
       (SELECT array_agg(proname ORDER BY proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
       (SELECT array_agg(rolname ORDER BY rolname) FROM pg_roles), (SELECT count(*) FROM pg_largeobject_metadata),
       (SELECT array_agg(setting ORDER BY name) FROM pg_settings WHERE name IN ('work_mem', 'data_directory')),
       (SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'hostile'), (SELECT count(*) FROM pg_extension),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
"""


@pytest.fixture
def database(servers: Servers) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    server = servers[VERSIONS[-1]]
    with server.database() as name, server.connect(name) as admin:
        admin.execute(_SETUP.encode())
        admin.execute(f"CREATE ROLE {name}_spied PASSWORD '{SECRET}'".encode())
        admin.execute(f"ALTER DATABASE {name} SET headwater.secret = '{SECRET}'".encode())
        admin.execute(f"SELECT '{SECRET}'".encode())  # its last query, as others would see it
        yield server.url(name), admin
        admin.execute(f"ALTER DATABASE {name} RESET headwater.secret".encode())
        admin.execute(f"DROP ROLE {name}_spied".encode())
        admin.execute("SELECT lo_unlink(4242)")


@pytest.fixture(params=WAYS)
def here(
    request: pytest.FixtureRequest, database: tuple[str, psycopg.Connection[Any]], tmp_path: Path
) -> Iterator[Place]:
    with place(request.param, tmp_path / "data", url=database[0]) as found:
        yield found


def _dump(url: str) -> Any:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(_DUMP).fetchone()


@pytest.mark.slow
def test_nothing_hostile_gets_through(here: Place, database: tuple[str, psycopg.Connection[Any]]) -> None:
    assert len(STATEMENTS) >= 200
    quiet = here.db.query("SELECT a, row_number() OVER (ORDER BY a) AS n FROM quiet", live=True)
    before = _dump(database[0])
    tally = attack(here, STATEMENTS, plain=not here.url)
    assert tally.refused >= 200, tally.answered
    assert _dump(database[0]) == before
    assert database[1].execute("SELECT 1").fetchone() == (1,), "the connection of another was ended"
    follows(here, quiet, [(7, 1)], "INSERT INTO quiet VALUES (7)")


def test_what_is_refused_says_why_and_what_is_harmless_is_answered(
    database: tuple[str, psycopg.Connection[Any]], tmp_path: Path
) -> None:
    with place("embedded", tmp_path, url=database[0]) as here:
        for sql, words in (
            ("SELECT pg_sleep(0) IS NULL AS x, a FROM t", "pg_sleep may not be called"),
            ("SELECT writes()", "writes may not be called"),
            ("SELECT rolpassword FROM pg_authid", "pg_authid is a system catalog"),
            ("SELECT * FROM spies_of_spies", "is a system catalog"),
        ):
            with pytest.raises(PermissionDenied, match=words):
                here.db.query(sql)
        for table in ("pg_stat_activity", "spies", "pg_stats", "information_schema.tables"):
            with pytest.raises(HeadwaterError, match="is a system catalog: it cannot be watched"):
                here.db.query(f"SELECT t.a, to_json(other)::text AS x FROM t, {table} AS other", live=True)
        assert here.db.query("SELECT a, a FROM t WHERE a = 1") == [{"a": 1}]
        for call in ("random()", "now()", "gen_random_uuid()", "pg_typeof(1)"):
            assert here.db.query(f"SELECT {call} AS x")
        assert {"relname": "t"} in here.db.query("SELECT relname FROM pg_class WHERE relname = 't'")
        assert here.db.query("SELECT table_name FROM information_schema.tables WHERE table_name = 't'")
