"""The golden file of queries over relations: canonical text, parameters, order and the tree of operators.

HEADWATER_GOLDEN=1 writes it anew: then read the diff. Every query is run on SQLite and evaluated plainly as well.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from headwater.dialects.bind import bind
from headwater.dialects.sqlite.render import SQLITE_TEXT
from headwater.plan.derived import written
from headwater.plan.planner import effective_sql, plan, template_from_sql
from headwater.sql.ir.relation_text import tree
from tests.sql.evaluator import rows_of
from tests.sql.test_golden import SCRIPT, TABLES, blocks, settled
from tests.sql.test_relations import uncertain

NAME = "relations.txt"


def _described(sql: str) -> str:
    planned = plan(sql, TABLES)
    template, instance = planned.template, planned.instance
    assert template.relation is not None
    pairs = zip(template.lifted, written(template, instance), strict=True)
    lifted = [f"{key} {op} {text}" for (key, op), text in pairs]
    types = [f"{out.name}: {out.expr.type.name if out.expr.type else 'NULL'}" for out in template.outputs]
    lines = [f"template {template.sql}", f"types    {', '.join(types)}"]
    lines += [f"params   {', '.join(lifted)}"] if lifted else []
    lines += [f"order    {', '.join(SQLITE_TEXT.key(key) for key in template.order)}"] if template.order else []
    lines += [f"frame    limit {instance.limit} offset {instance.offset}"] if template.framed else []
    return "".join(f"{line}\n" for line in [*lines, *tree(template.relation, SQLITE_TEXT)])


@pytest.fixture
def memory() -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    return memory


def test_what_queries_become() -> None:
    settled(NAME, {sql: _described(sql) for sql in blocks(NAME)})


@pytest.mark.parametrize("sql", list(blocks(NAME)))
def test_sqlite_agrees(sql: str, memory: sqlite3.Connection) -> None:
    query, planned = bind(sql, TABLES), plan(sql, TABLES)
    assert query.relation is not None
    written = memory.execute(sql)
    effective = memory.execute(effective_sql(planned.template, planned.instance))
    names = [output.name for output in query.outputs]
    assert names == [column[0] for column in written.description] == [column[0] for column in effective.description]
    tables = {table.name: (table.names, memory.execute(f"SELECT * FROM {table.name}").fetchall()) for table in TABLES}
    found, expected = list(map(repr, rows_of(query, tables))), list(map(repr, effective))
    assert found == expected if query.order else Counter(found) == Counter(expected)
    if not query.framed and not uncertain(query.relation):
        assert Counter(found) == Counter(map(repr, written))
    assert template_from_sql(planned.template.sql, TABLES) == planned.template
