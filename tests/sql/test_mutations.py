"""Broken SQL: what we accept, SQLite accepts and answers alike; what we call wrong, SQLite refuses."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from random import Random

from headwater.dialects.bind import bind
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.plan.planner import Planned, effective_sql, plan, template_from_sql
from tests.sql.evaluator import rows_of
from tests.sql.test_golden import SCRIPT, TABLES, blocks
from tests.sql.test_relations import uncertain
from tests.sql.written import FUZZ

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\[[^\]]*\]|`[^`]*`|\w+|<>|<=|>=|==|!=|\|\||<<|>>|->>|->|\S")
_STRANGE = """NOT IS NULL ( ) , COLLATE AS BETWEEN AND IN CASE WHEN END ESCAPE ISNULL - + ~ . * INTERVAL ANY ILIKE
LATERAL UNNEST QUALIFY TABLESAMPLE FOR USING ROWS TOP PERCENT :: { } @ # ? ! ^ // DIV XOR RLIKE && DATE ARRAY STRUCT
EXTRACT TRIM TRY_CAST OFFSET FETCH WITH FILL VALUES 5abc 1e .5 0x 'open"""
# Known, and nobody's loss: an empty type in CAST, a name or ESCAPE SQLite never looks at.
_LENIENT = re.compile(r"AS \)|COLLATE|ESCAPE|IN \( \)|json_each")


_MEMORY = sqlite3.connect(":memory:")
_MEMORY.executescript(SCRIPT)
ROWS = {table.name: (table.names, _MEMORY.execute(f"SELECT * FROM {table.name}").fetchall()) for table in TABLES}


def _mutated(random: Random, queries: list[str], pool: list[str]) -> str:
    tokens = _TOKEN.findall(random.choice(queries))
    for _ in range(random.choice([1, 1, 2])):
        at = random.randrange(len(tokens)) if tokens else 0
        match random.randrange(4):
            case 0:
                del tokens[at : at + 1]
            case 1:
                tokens.insert(at, random.choice(pool))
            case 2:
                tokens[at : at + 1] = [random.choice(pool)]
            case _:
                tokens[at : at + 1], tokens[-1:] = tokens[-1:], tokens[at : at + 1]
    return " ".join(tokens)


def _planned(sql: str) -> Planned | SqlError:
    try:
        return plan(sql, TABLES)
    except SqlError as error:
        return error


def _answer(memory: sqlite3.Connection, sql: str) -> list[str] | sqlite3.Error:
    try:
        return [repr(row) for row in memory.execute(sql)]
    except sqlite3.Error as error:
        return error


def test_sqlite_agrees_on_broken_queries() -> None:
    random = Random(7)
    names = ("bound.txt", "errors.txt", "relations.txt")
    queries = [sql for name in names for sql in blocks(name) if sql.startswith("SELECT")]
    pool = [token for sql in queries for token in _TOKEN.findall(sql)] + _STRANGE.split()
    memory = sqlite3.connect(":memory:")
    memory.executescript(SCRIPT)
    for _ in range(1500 * FUZZ):
        sql = _mutated(random, queries, pool)
        if sql.upper().startswith("SELECT"):
            _check(memory, sql, _planned(sql))


def _several(planned: Planned) -> bool:
    """Whether SQLite may answer the user's own text in several ways."""
    relation = planned.template.relation
    return planned.template.framed or (relation is not None and uncertain(relation))


def _check_relation(sql: str, planned: Planned, effective: list[str] | sqlite3.Error) -> None:
    if planned.template.relation is not None and not isinstance(effective, sqlite3.Error):
        found = [repr(row) for row in rows_of(bind(sql, TABLES), ROWS)]
        assert found == effective if planned.template.order else Counter(found) == Counter(effective), sql


def _check(memory: sqlite3.Connection, sql: str, planned: Planned | SqlError) -> None:
    answer = _answer(memory, sql)
    match planned:
        case Planned():
            assert not isinstance(answer, sqlite3.Error), f"{sql}: {answer}"
            effective = _answer(memory, effective_sql(planned.template, planned.instance))
            assert _several(planned) or Counter(effective) == Counter(answer), sql  # type: ignore[arg-type]
            assert template_from_sql(planned.template.sql, TABLES) == planned.template, sql
            _check_relation(sql, planned, effective)
        case UnsupportedQuery():
            assert planned.hint, sql
        case SqlError():
            ours_alone = '"' in sql or _LENIENT.search(sql)
            assert isinstance(answer, sqlite3.Error) or ours_alone, f"{sql}: {planned}"
