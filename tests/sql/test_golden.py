"""Two golden files: what each query becomes, and what each wrong or unsupported one is told.

A line of SQL stands unindented, what we make of it indented beneath. HEADWATER_GOLDEN=1 writes them anew: then read
the diff. Every line is also run on SQLite, which has to agree.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from headwater.dialects.sqlite.render import render_key
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.derived import written
from headwater.plan.planner import Planned, effective_sql, plan, template_from_sql

GOLDEN = Path(__file__).parent / "golden"
SCRIPT = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INT, status TEXT, total REAL, name TEXT COLLATE NOCASE, note,
                     data BLOB, date TEXT, "order" INTEGER, key TEXT);
CREATE TABLE logs (at INTEGER, line TEXT COLLATE NOCASE);
CREATE TABLE pairs (a INTEGER, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE tags (tag TEXT PRIMARY KEY COLLATE RTRIM NOT NULL);
INSERT INTO orders VALUES
  (1, 42, 'x', 5.0, 'Ann', 5, x'00ff', '2026-01-01', 3, 'k'), (2, 42, 'new', 150.5, 'ann', '5', x'', NULL, 1, NULL),
  (3, 7, 'y', NULL, 'Bob', 'wxyz', NULL, NULL, NULL, NULL), (4, NULL, NULL, -0.5, NULL, x'61', x'61', NULL, 2, 'k'),
  (5, 31, '5', 9007199254740992.0, '100%', 5.0, NULL, '2026-01-02', 3, 'l'),
  (6, -1, 'NEW', -0.5, 'new', NULL, x'', '', 0, '');
INSERT INTO logs VALUES (1, 'x'), (1, 'X'), (2, 'y'), (2, 'y'), (NULL, NULL);
INSERT INTO pairs VALUES (1, 'x'), (1, 'y'), (2, 'x');
"""
TABLES = (
    Table(
        "orders",
        (
            Column("id", Type.INTEGER, "INTEGER"),
            Column("user_id", Type.INTEGER, "INT"),
            Column("status", Type.TEXT, "TEXT"),
            Column("total", Type.REAL, "REAL"),
            Column("name", Type.TEXT, "TEXT", "NOCASE"),
            Column("note", Type.ANY, ""),
            Column("data", Type.BLOB, "BLOB"),
            Column("date", Type.TEXT, "TEXT"),
            Column("order", Type.INTEGER, "INTEGER"),
            Column("key", Type.TEXT, "TEXT"),
        ),
        ("id",),
    ),
    Table("logs", (Column("at", Type.INTEGER, "INTEGER"), Column("line", Type.TEXT, "TEXT", "NOCASE"))),
    Table("pairs", (Column("a", Type.INTEGER, "INTEGER"), Column("b", Type.TEXT, "TEXT")), ("a", "b")),
    Table("tags", (Column("tag", Type.TEXT, "TEXT", "RTRIM", nullable=False),), ("tag",)),
)


def blocks(name: str) -> dict[str, str]:
    """SQL to what stands beneath it."""
    blocks: dict[str, str] = {}
    sql = ""
    for line in (GOLDEN / name).read_text().splitlines():
        if line.startswith("    "):
            blocks[sql] += line[4:] + "\n"
        else:
            sql = line
            blocks[sql] = ""
    return blocks


def _write(name: str, blocks: dict[str, str]) -> None:
    lines = [line for sql, text in blocks.items() for line in (sql, *("    " + part for part in text.splitlines()))]
    (GOLDEN / name).write_text("\n".join(lines) + "\n")


def settled(name: str, found: dict[str, str]) -> None:
    if os.environ.get("HEADWATER_GOLDEN"):
        _write(name, found)
    assert found == blocks(name)


def _table(planned: Planned) -> Table:
    return next(table for table in TABLES if table.name == planned.template.table)


def _described(sql: str) -> str:
    planned = plan(sql, TABLES)
    template, instance = planned.template, planned.instance
    pairs = zip(template.lifted, written(template, instance), strict=True)
    lifted = [f"{key} {op} {text}" for (key, op), text in pairs]
    types = [f"{out.name}: {out.expr.type.name if out.expr.type else 'NULL'}" for out in template.outputs]
    lines = [f"template {template.sql}", f"types    {', '.join(types)}"]
    lines += [f"params   {', '.join(lifted)}"] if lifted else []
    lines += (
        [f"order    {', '.join(render_key(key, template.table) for key in template.order)}"] if template.order else []
    )
    lines += [f"frame    limit {instance.limit} offset {instance.offset}"] if template.framed else []
    return "".join(f"{line}\n" for line in lines)


def _refused(sql: str) -> str:
    with pytest.raises(SqlError) as caught:
        plan(sql, TABLES)
    return f"{caught.value.code}: {caught.value}\n"


@pytest.fixture
def memory() -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    return memory


def test_what_queries_become() -> None:
    settled("bound.txt", {sql: _described(sql) for sql in blocks("bound.txt")})


def test_what_wrong_queries_are_told() -> None:
    settled("errors.txt", {sql: _refused(sql) for sql in blocks("errors.txt")})


@pytest.mark.parametrize("sql", list(blocks("bound.txt")))
def test_sqlite_agrees_with_what_we_accept(sql: str, memory: sqlite3.Connection) -> None:
    planned = plan(sql, TABLES)
    written = memory.execute(sql)
    effective = memory.execute(effective_sql(planned.template, planned.instance))
    names = [output.name for output in planned.template.outputs]
    assert names == [column[0] for column in written.description] == [column[0] for column in effective.description]
    if not planned.template.framed:
        assert Counter(map(repr, written)) == Counter(map(repr, effective))
    assert template_from_sql(planned.template.sql, _table(planned)) == planned.template


# SQLite takes an unknown name in double quotes for text: a misspelt name would silently be a constant.
_OURS_ALONE = ('SELECT id FROM orders WHERE status = "open"',)
# Right for SQLite by its grammar, and only the data or its extensions decide whether it runs.
_UNDECIDED = ("INDEXED BY nothing", "rowid FROM pairs", "MATCH", "REGEXP", "-> '$.a'", "json_extract", "json_each")


@pytest.mark.parametrize("sql", list(blocks("errors.txt")))
def test_sqlite_agrees_with_what_we_refuse(sql: str, memory: sqlite3.Connection) -> None:
    """What we call wrong is wrong there too; what we call unsupported runs there."""
    with pytest.raises(SqlError) as caught:
        plan(sql, TABLES)
    fails = _fails(memory, sql)
    if isinstance(caught.value, UnsupportedQuery):
        assert not fails or any(part in sql for part in _UNDECIDED)
    elif sql.strip(" ;"):
        assert fails or sql in _OURS_ALONE


def _fails(memory: sqlite3.Connection, sql: str) -> bool:
    try:
        for statement in sql.split(";"):
            memory.execute(statement).fetchall()
    except sqlite3.Error:
        return True
    return False
