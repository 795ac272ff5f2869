"""Templates over relations: what is lifted and what stays, what shares a relation, what a later schema leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.model.schema import Column
from headwater.model.value import Type
from headwater.plan.planner import effective_sql, plan, template_from_sql
from tests.sql.test_golden import TABLES

_JOINED = "SELECT o.id, p.b FROM orders o JOIN pairs p ON p.a = o.id"


def test_queries_that_differ_in_constants_share_a_template() -> None:
    one = plan(f"{_JOINED} WHERE o.user_id = 1 AND p.b = 'x' LIMIT 2", TABLES)
    other = plan(f"{_JOINED} WHERE 'y' = p.b AND o.user_id = ? LIMIT 3 OFFSET 1", TABLES, [7])
    assert one.template == other.template
    assert one.template.keys == ("o.user_id", "p.b")
    assert (other.instance.values, other.instance.limit, other.instance.offset) == ((7, "y"), 3, 1)


def test_templates_over_one_relation_share_its_name() -> None:
    names = {
        plan(
            f"SELECT {what} FROM orders o JOIN pairs p ON p.a = o.id WHERE o.user_id = 1{order}", TABLES
        ).template.table
        for what in ("o.id", "p.b, o.user_id + 1 AS n")
        for order in ("", " ORDER BY p.b LIMIT 2")
    }
    assert len(names) == 1 and names.pop().startswith("~")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders WHERE user_id = 1 HAVING count(*) > 2",
        "SELECT count(*) FROM orders WHERE user_id = 1 LIMIT 1",
        "SELECT count(*) FROM orders WHERE user_id = 'x'",
        "SELECT count(*) FROM orders WHERE user_id = 1 AND user_id = 2",
        "SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) = 1 OR count(*) > 9",
        "SELECT DISTINCT status FROM orders GROUP BY status, user_id HAVING count(*) = 1",
        "SELECT o.id FROM orders o JOIN pairs p ON p.a = o.id AND o.user_id = 1",
        "SELECT o.id FROM orders o LEFT JOIN pairs p ON p.a = 1",
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM pairs p WHERE p.a = 1)",
        "SELECT id FROM (SELECT id FROM orders WHERE user_id = 1)",
        "SELECT id FROM orders WHERE user_id = 1 UNION ALL SELECT a FROM pairs WHERE a = 1",
        "SELECT o.id FROM orders o, pairs p WHERE o.user_id = 1 OR p.a = 1",
    ],
)
def test_constants_below_the_top_stay(sql: str) -> None:
    assert plan(sql, TABLES).template.keys == ()


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT o.id FROM orders o LEFT JOIN pairs p ON p.a = o.id WHERE p.b = 'x'", ("p.b",)),
        ("SELECT user_id, count(*) FROM orders WHERE user_id = 1 AND total > 2 GROUP BY user_id", ("orders.user_id",)),
        ("SELECT status, count(*) FROM orders WHERE user_id = 1 GROUP BY status", ("orders.user_id",)),
        ("SELECT count(*) FROM orders WHERE user_id = 1", ("orders.user_id",)),
        ("SELECT DISTINCT status FROM orders WHERE user_id = 1", ("orders.user_id",)),
        ("SELECT DISTINCT user_id FROM orders WHERE user_id = 1 AND status = 'x'", ("orders.status", "orders.user_id")),
        ("SELECT d.id FROM (SELECT id, user_id AS u FROM orders) d WHERE d.u = 1", ("orders.user_id",)),
        (
            "SELECT id FROM orders WHERE user_id = 1 AND user_id = 2 AND EXISTS (SELECT 1 FROM pairs)",
            ("orders.user_id",),
        ),
    ],
)
def test_columns_that_reach_the_top_are_lifted(sql: str, keys: tuple[str, ...]) -> None:
    planned = plan(sql, TABLES)
    assert planned.template.keys == keys
    assert template_from_sql(planned.template.sql, {table.name: table for table in TABLES}) == planned.template


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT p.*, status FROM pairs p JOIN orders ON id = a WHERE b = 'x' ORDER BY status LIMIT 3",
        "SELECT a, count(*) FROM pairs NATURAL JOIN pairs AS q GROUP BY a",
        "SELECT x.* FROM (SELECT * FROM pairs) x WHERE EXISTS (SELECT * FROM logs WHERE at = a) ORDER BY b",
        "SELECT b AS label FROM pairs, logs WHERE label = 'x' GROUP BY label HAVING count(*) > 1 ORDER BY label",
    ],
)
def test_a_column_added_later_changes_nothing(sql: str) -> None:
    template = plan(sql, TABLES).template
    late = tuple(Column(name, Type.TEXT, "TEXT") for name in ("b", "a", "line", "label"))
    wider = [
        replace(table, columns=(*table.columns, *(column for column in late if column.name not in table.names)))
        for table in TABLES
    ]
    assert template_from_sql(template.sql, wider) == template


def test_the_effective_query_is_the_text_with_its_holes_filled() -> None:
    planned = plan(f"{_JOINED} WHERE p.b = 'it''s :p1' AND o.status = ':limit' ORDER BY o.total LIMIT 2", TABLES)
    assert effective_sql(planned.template, planned.instance) == (
        'SELECT "o"."id", "p"."b" FROM "orders" AS "o" JOIN "pairs" AS "p" ON "p"."a" = "o"."id"'
        ' WHERE ("o"."status" = \':limit\') AND ("p"."b" = \'it\'\'s :p1\')'
        ' ORDER BY "o"."total", "o"."id", "p"."a", "p"."b" LIMIT 2 OFFSET 0'
    )
