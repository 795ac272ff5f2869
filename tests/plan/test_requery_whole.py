"""Queries that the origin answers: what they depend on, what is refused, when they must be asked again."""

from __future__ import annotations

import pytest

from headwater.plan.requery_whole import has_order, requeried, touches

MASK = {"t": frozenset({"a"}), "n": frozenset({""})}


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t order\n by 1 LIMIT 3", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT 'x ORDER BY y' FROM t -- ORDER BY a", False),
        ('SELECT "order by" FROM t /* ORDER BY */', False),
        ("SELECT count(*) OVER (ORDER BY a) FROM t", False),
    ],
)
def test_order_by_counts_outside_parentheses_and_quotes(sql: str, ordered: bool) -> None:
    assert has_order(sql) is ordered


def test_one_text_with_other_values_is_another_instance_of_one_template() -> None:
    one, two = (requeried("SELECT a FROM t WHERE b = ?", (n,), ("a",), MASK, ()) for n in (1, 2))
    assert one.template == two.template and one.instance != two.instance


def test_only_changes_of_columns_that_are_read_touch() -> None:
    names = ("a", "b")
    assert touches(MASK, "t", names, (1, 1), (2, 1))
    assert touches(MASK, "t", names, (1, 1), (1.0, 1))
    assert not touches(MASK, "t", names, (1, 1), (1, 2))
    assert touches(MASK, "t", names, None, (1, 1)) and touches(MASK, "t", names, (1, 1), None)
    assert touches(MASK, "n", names, None, (1, 1)) and not touches(MASK, "n", names, (1, 1), (2, 2))
    assert not touches(MASK, "other", names, None, (1, 1))
