"""Random queries: the bound relation, evaluated plainly, has the rows SQLite gives for the user's own text."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from headwater.dialects.bind import bind
from headwater.model.errors import UnsupportedQuery
from headwater.model.value import Row
from headwater.plan.planner import effective_sql, plan, template_from_sql
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Group, Relation, Top, inputs_of
from tests.sql.evaluator import rows_of
from tests.sql.queries import World, world
from tests.sql.written import FUZZ

SEEDS = range(600 * FUZZ)


def uncertain(relation: Relation) -> bool:
    """Whether SQLite may answer in several ways: the first of equals, or a concatenation in any order."""
    concatenated = isinstance(relation, Group) and any(each.order for each in relation.aggregates)
    return concatenated or isinstance(relation, Top) or any(uncertain(each) for each in inputs_of(relation))


def _bound(each: World) -> Query | None:
    try:
        return bind(each.sql, each.tables)
    except UnsupportedQuery:
        return None


def _run(memory: sqlite3.Connection, sql: str) -> list[str]:
    return [repr(row) for row in memory.execute(sql)]


def _written(rows: list[Row]) -> list[str]:
    return [repr(row) for row in rows]


def check(each: World) -> bool:
    """Whether the query was accepted; fails where any two answers differ."""
    memory = each.filled()
    answer = _run(memory, each.sql)
    query = _bound(each)
    if query is None:
        return False
    planned = plan(each.sql, each.tables)
    assert template_from_sql(planned.template.sql, each.tables) == planned.template, each.sql
    if query.relation is None:
        return True
    effective = _run(memory, effective_sql(planned.template, planned.instance))
    found = _written(rows_of(query, {table.name: (table.names, each.rows[table.name]) for table in each.tables}))
    if query.order:
        assert found == effective, each.sql
    assert Counter(found) == Counter(effective), each.sql
    if not query.framed and not uncertain(query.relation):
        assert Counter(found) == Counter(answer), each.sql
    return True


@pytest.mark.slow
def test_relations_answer_as_sqlite_does() -> None:
    accepted: Counter[str] = Counter()
    for seed in SEEDS:
        each = world(seed)
        try:
            taken = check(each)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {each.sql}") from error
        accepted["taken" if taken else "refused"] += 1
        accepted.update(each.features if taken else ())
    assert accepted["taken"] >= 0.8 * len(SEEDS), accepted
    assert not FEATURES - accepted.keys()


FEATURES = frozenset(
    {
        *(
            "join",
            "left join",
            "right join",
            "full join",
            "cross join",
            "comma",
            "using",
            "theta join",
            "derived",
            "cte",
        ),
        *("exists", "in", "scalar", "correlated", "first row", "top", "star", "order", "limit", "values"),
        *("group", "scalar aggregate", "having", "filter", "distinct", "distinct aggregate", "group_concat"),
        *("natural", "joins in parentheses", "dependent column"),
        *("count", "sum", "total", "avg", "min", "max", "union", "union all", "intersect", "except"),
    }
)
