"""Hostile SQL on SQLite: see `hostile`. Statements are made of what is dangerous, and of where it may stand."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.model.errors import LimitExceeded, PermissionDenied, SqlError
from headwater.sources.sqlite.source import SqliteSource
from tests.security.hostile import SECRET, attack, follows
from tests.support.databases import WAYS, Place, place

_PLACES = (  # where an expression may stand
    "SELECT {} AS x FROM t",
    "SELECT a FROM t WHERE {} IS NOT NULL",
    "SELECT a FROM t ORDER BY {}",
    "WITH c AS MATERIALIZED (SELECT {} AS x) SELECT x FROM c, t",
)
_CALLS = (
    "fts3_tokenizer('simple')",
    "fts3_tokenizer('simple', x'4242424242424242')",
    "load_extension('./evil.so')",
    "load_extension('./evil.so', 'entry')",
    "readfile('{file}')",
    "writefile('{file}.new', 'x')",
    "edit('x', 'vi')",
    "sqlite_log(1, 'forged')",
    "sqlite_offset(a)",
    "sqlite_compileoption_get(1)",
    "fts5(NULL)",
    "rtreecheck('t')",
    "rtreenode(2, x'00000000')",
    "rtreedepth(x'00')",
    "matchinfo('x')",
    "offsets('x')",
    "optimize('x')",
    "zipfile('{file}', 'x')",
)
_TABLES_OF_OURS = ("_headwater_log", "_headwater_tables", "_headwater_position", "_HEADWATER_LOG", '"_headwater_log"')
_TABLES_OF_SQLITE = (
    "sqlite_stat1",
    "sqlite_stat4",
    "sqlite_temp_schema",
    "sqlite_dbpage",
    "sqlite_dbdata",
    "sqlite_stmt",
    "bytecode('SELECT 1')",
    "tables_used('SELECT 1')",
    "dbstat",
    "fts3tokenize",
    "fts3tokenize('simple', 'x')",
    "fts5vocab",
    "fts4aux",
    "pragma_table_list",
    "pragma_table_info('t')",
    "pragma_database_list",
    "pragma_function_list",
    "pragma_module_list",
    "pragma_compile_options",
    "pragma_wal_checkpoint",
    "pragma_writable_schema",
    "fsdir('/')",
    "generate_series(1, 9)",
)
_READS = (  # where a table may stand
    "SELECT * FROM {}",
    "SELECT count(*) AS n FROM {}",
    "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM {})",
    "SELECT t.a FROM t LEFT JOIN {} AS other ON 1",
)
_WRITES = (
    "INSERT INTO t VALUES (9, 'x')",
    "INSERT INTO t VALUES (9, 'x') RETURNING a",
    "REPLACE INTO t VALUES (1, 'x')",
    "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO UPDATE SET b = 'x'",
    "UPDATE t SET b = 'x'",
    "UPDATE t SET b = 'x' RETURNING *",
    "DELETE FROM t",
    "DELETE FROM t RETURNING a",
    "WITH c AS (SELECT 1) DELETE FROM t",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN QUERY PLAN DELETE FROM t",
    "SELECT a FROM t; DELETE FROM t",
    "SELECT a FROM t;;; DROP TABLE t; --",
    "/* SELECT */ DELETE FROM t",
    "DROP TABLE t",
    "DROP VIEW v",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t ADD COLUMN c",
    "CREATE TABLE u (a)",
    "CREATE TABLE u AS SELECT * FROM t",
    "CREATE TEMP TABLE u (a)",
    "CREATE VIEW w AS SELECT * FROM t",
    "CREATE TEMP VIEW w AS SELECT * FROM _headwater_log",
    "CREATE INDEX i ON t (b)",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE VIRTUAL TABLE u USING fts3(tokenize=simple)",
    "CREATE VIRTUAL TABLE temp.u USING fts5vocab('main', 't', 'row')",
    "ATTACH '{file}' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '{file}.copy'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "BEGIN EXCLUSIVE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "PRAGMA writable_schema = ON",
    "PRAGMA query_only = OFF",
    "PRAGMA trusted_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 9",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA temp_store_directory = '/'",
    "PRAGMA table_info(t)",
    "UPDATE sqlite_schema SET sql = 'x'",
    "DELETE FROM _headwater_log",
)
_LARGE = (  # beside a window function, so that the database is asked
    "format('%.1000000000s', b)",
    "hex(zeroblob(1000000000))",
    "zeroblob(1000000000)",
    "replace(hex(zeroblob(100000)), '0', hex(zeroblob(100000)))",
    "json_array(hex(zeroblob(30000000)), hex(zeroblob(30000000)))",
    "hex(randomblob(1000000000))",
    "char(" + ", ".join(["1114111"] * 200) + ")",
    "json_extract('" + "[" * 5000 + "', '$')",
    "abs(-9223372036854775808)",
    "sum(9223372036854775807)",
)
_DEEP = (
    "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS x FROM t",
    "SELECT " + "NOT " * 5000 + "a AS x FROM t",
    "SELECT " + " - ".join(["1"] * 3000) + " AS x FROM t",
    "SELECT " + ", ".join(f"a AS c{n}" for n in range(2100)) + " FROM t",
    "SELECT t0.a FROM " + ", ".join(f"t AS t{n}" for n in range(70)),
    "SELECT a FROM t WHERE b LIKE '" + "%a" * 4000 + "'",
    "SELECT a FROM t WHERE b GLOB '" + "*a" * 4000 + "'",
    "SELECT value FROM json_tree('" + "[" * 900 + "]" * 900 + "'), t",
    "WITH c AS (SELECT * FROM c) SELECT * FROM c",
    "WITH " + ", ".join(f"c{n} AS (SELECT * FROM c{n + 1})" for n in range(100)) + " SELECT * FROM c0",
)
_GARBLED = (
    "",
    ";",
    "--",
    "/*",
    "/* /* */",
    "SELECT",
    "SELECT * FROM",
    "SELECT a FROM t WHERE",
    "SELECT 'unterminated FROM t",
    'SELECT "unterminated FROM t',
    "SELECT [unterminated FROM t",
    "SELECT x'4' FROM t",
    "SELECT a FROM t\x00; DELETE FROM t",
    "\x00SELECT a FROM t",
    "SELECT '\x00' || a AS x FROM t",
    "SELECT a FROM t) UNION SELECT * FROM (SELECT 1",
    "SELECT 1) LIMIT 0; DELETE FROM t; SELECT * FROM (SELECT 1",
    "SELECT a FROM t LIMIT 1 --) LIMIT 0",
    "QUERY PLAN SELECT a FROM t",
    "SELECT a FROM temp.t",
    "SELECT a FROM other.t",
    "SELECT a FROM main._headwater_log",
    "SELECT \ud800 FROM t",
    "SELECT '\ud800' AS x FROM t",
    "SELECT a COLLATE nope FROM t",
    "SELECT a FROM t INDEXED BY nope",
    "SELECT rowid AS r FROM v",
    "SELECT ?9999999 AS x FROM t",
    "VALUES (1), (2, 3)",
    "SELECT a FROM t NATURAL JOIN _headwater_log",
    "SELECT o0 FROM spy",
    "SELECT n FROM spy_count",
    "SELECT b FROM t UNION ALL SELECT o1 FROM _headwater_log",
    "SELECT (SELECT max(n1) FROM _headwater_log) AS x FROM t",
)


def _statements(file: Path) -> list[str]:
    made = [
        *(where.format(call) for call in _CALLS for where in _PLACES),
        *(where.format(table) for table in _TABLES_OF_OURS + _TABLES_OF_SQLITE for where in _READS),
        *_WRITES,
        *(f"SELECT {large} AS x, row_number() OVER () AS n FROM t" for large in _LARGE),
        *_DEEP,
        *_GARBLED,
    ]
    return [one.replace("{file}", str(file)) for one in made]


@pytest.fixture(params=WAYS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "database" / "t.db"
    path.parent.mkdir()
    with place(request.param, tmp_path / "data", url=f"sqlite:///{path}") as found:
        found.write("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        found.write("CREATE TABLE quiet (a INTEGER PRIMARY KEY)")
        found.write("CREATE VIEW v AS SELECT a FROM t")
        found.write("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        yield found


def _dump(path: Path) -> list[str]:
    db = sqlite3.connect(path)
    try:
        return [line for line in db.iterdump() if "_headwater_" not in line]
    finally:
        db.close()


@pytest.mark.slow
def test_nothing_hostile_gets_through(here: Place, tmp_path: Path) -> None:
    path, file = tmp_path / "database" / "t.db", tmp_path / "secret.txt"
    file.write_text(SECRET)
    quiet = here.db.query("SELECT a, row_number() OVER (ORDER BY a) AS n FROM quiet", live=True)
    captured = here.db.query("SELECT b FROM t", live=True)
    assert captured.wait(here.write("INSERT INTO t VALUES (3, ?)", SECRET))
    assert captured.wait(here.write("DELETE FROM t WHERE a = 3"))  # from here on it is in our log alone
    here.write("CREATE VIEW spy AS SELECT o0, o1, n1 FROM _headwater_log")
    here.write("CREATE VIEW spy_count AS SELECT count(*) AS n FROM _headwater_log")
    before, statements = _dump(path), _statements(file)
    if here.url:
        statements = [one for one in statements if "\ud800" not in one]  # cannot be sent
    assert len(statements) >= 200
    tally = attack(here, statements, plain=not here.url)
    assert tally.refused >= 200, tally.answered
    assert _dump(path) == before
    assert {one.name for one in path.parent.iterdir()} <= {"t.db", "t.db-wal", "t.db-shm"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "database", "secret.txt"]
    follows(here, quiet, [(7, 1)], "INSERT INTO quiet VALUES (7)")


def test_a_question_that_kills_its_process_is_an_error_of_its_own(here: Place) -> None:
    """As memory corruption would: the process is gone in the middle of a question."""
    source = here.server.pipeline.source
    assert isinstance(source, SqliteSource)
    quiet = here.db.query("SELECT a, row_number() OVER (ORDER BY a) AS n FROM quiet", live=True)
    with source.questions.lent() as process:
        os.kill(process.pid, signal.SIGSEGV)
    with pytest.raises(SqlError, match=r"ended \(signal 11\)"):
        source.query("SELECT a FROM t")
    assert source.query("SELECT a FROM t").rows == [(1,), (2,)]
    follows(here, quiet, [(7, 1)], "INSERT INTO quiet VALUES (7)")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/t.db"])
def test_what_is_refused_says_why(url: str, tmp_path: Path) -> None:
    with headwater.connect(url.format(tmp_path), runner="inline", data_dir=tmp_path / "data") as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        db.execute("CREATE VIEW spy AS SELECT * FROM _headwater_log")
        db.query("SELECT a FROM t", live=True)
        for live in (True, False):
            with pytest.raises(PermissionDenied, match="function fts3_tokenizer may not be called"):
                db.query("SELECT fts3_tokenizer('simple', x'4242424242424242') AS x FROM t", live=live)
            for sql in ("SELECT * FROM _headwater_log", "SELECT * FROM spy", "SELECT count(*) AS n FROM spy"):
                with pytest.raises(PermissionDenied, match="_headwater_log belongs to Headwater"):
                    db.query(sql, live=live)
        with pytest.raises(PermissionDenied, match="belongs to Headwater"):
            db.explain("SELECT seq FROM _headwater_log")
        with pytest.raises(LimitExceeded, match="too big"):
            db.query("SELECT hex(zeroblob(900000000)) AS x")
        assert db.query("SELECT 1 AS one") == [{"one": 1}]
