"""What a query reads is SQLite's own word: columns, through views and subqueries, and functions."""

from __future__ import annotations

import pytest

from headwater.model.errors import PermissionDenied, SqlError, UnsupportedQuery
from headwater.sources.sqlite.memory import MemorySource


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource("reads")
    source.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT, y REAL)")
    source.execute("CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER)")
    source.execute("CREATE VIEW v AS SELECT x FROM a WHERE y > 1")
    return source


@pytest.mark.parametrize(
    ("sql", "columns", "tables"),
    [
        ("SELECT x FROM a", ("x",), {"a": {"x"}}),
        ("SELECT count(*) AS n FROM a", ("n",), {"a": {""}}),
        ("SELECT count(*) AS n FROM A", ("n",), {"a": {""}}),
        ("SELECT a.x, b.id FROM a JOIN b ON b.a = a.id", ("x", "id"), {"a": {"id", "x"}, "b": {"a", "id"}}),
        ("SELECT * FROM v", ("x",), {"a": {"x", "y"}}),
        ("WITH c AS (SELECT y FROM a) SELECT y + 1 AS z FROM c;", ("z",), {"a": {"y"}}),
        ("SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM b WHERE a = 2)", ("one",), {"b": {"a"}}),
    ],
)
def test_the_columns_a_query_reads(
    source: MemorySource, sql: str, columns: tuple[str, ...], tables: dict[str, set[str]]
) -> None:
    reads = source.reads(sql)
    assert reads.columns == columns
    assert reads.tables == {name: frozenset(names) for name, names in tables.items()}


def test_the_functions_a_query_calls(source: MemorySource) -> None:
    assert source.reads("SELECT upper(x) AS u, random() AS r FROM a").functions >= {"upper", "random"}


@pytest.mark.parametrize(
    "sql", ["DELETE FROM a", "SELECT nope FROM a", "SELECT 1; SELECT 2", "", "PRAGMA user_version"]
)
def test_what_is_no_query_is_refused(source: MemorySource, sql: str) -> None:
    with pytest.raises(SqlError):
        source.reads(sql)
    assert source.query("SELECT count(*) FROM a").rows == [(0,)]


def test_the_catalog_cannot_be_watched(source: MemorySource) -> None:
    with pytest.raises(UnsupportedQuery, match="cannot be watched"):
        source.reads("SELECT name FROM sqlite_schema")


def test_two_columns_of_one_name_are_refused(source: MemorySource) -> None:
    with pytest.raises(UnsupportedQuery, match="two columns are named id"):
        source.reads("SELECT a.id, b.id FROM a, b")


def test_a_virtual_table_cannot_be_watched_but_json_each_is_only_its_arguments(source: MemorySource) -> None:
    source.execute("CREATE VIRTUAL TABLE notes USING fts5(body)")
    for sql in ("SELECT body FROM notes", "SELECT count(*) AS n FROM NOTES", "SELECT c0 FROM notes_content"):
        with pytest.raises(UnsupportedQuery, match="cannot be watched"):
            source.reads(sql)
    with pytest.raises(PermissionDenied, match="pragma_table_list is not a table or view"):
        source.reads("SELECT name FROM pragma_table_list")
    assert source.reads("SELECT e.value AS v FROM a, json_each(a.x) e").tables == {"a": frozenset({"x"})}


def test_a_rowid_that_is_no_column_reads_its_table(source: MemorySource) -> None:
    source.execute("CREATE TABLE bare (v)")
    assert set(source.reads("SELECT rowid AS r FROM bare").tables) == {"bare"}
    assert "id" in source.reads("SELECT rowid AS r FROM a").tables["a"]
