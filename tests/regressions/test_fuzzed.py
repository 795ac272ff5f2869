"""The smallest queries that the fuzzer found wrong, and that are no case of rows and transactions."""

from __future__ import annotations

import pytest

from headwater.dialects.sqlite.literals import write
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import plan

P = Table("p", (Column("id", Type.INTEGER, "INTEGER", nullable=False), Column("i", Type.INTEGER, "INTEGER")), ("id",))


def test_a_table_joined_naturally_with_itself_is_left_to_the_origin() -> None:
    """SQLite runs it; it was said to be wrong, and so was not even asked again."""
    with pytest.raises(UnsupportedQuery, match="two tables of one name"):
        plan("SELECT p.i FROM p NATURAL LEFT JOIN p", [P])


def test_the_sign_of_zero_does_not_depend_on_what_was_written_before() -> None:
    """0.0 and -0.0 were one to the cache of written reals."""
    assert [write(value) for value in (0.0, -0.0, 0.0, 0)] == ["0.0", "-0.0", "0.0", "0"]


def test_group_concat_in_a_subquery_is_left_to_the_origin() -> None:
    """SQLite makes an index for `q.i = p.id` and reads by it: the rows come in no order that we could name."""
    with pytest.raises(UnsupportedQuery, match="no certain order"):
        plan("SELECT id, (SELECT group_concat(q.id) FROM p AS q WHERE q.i = p.id) AS c FROM p", [P])
    assert plan("SELECT g.c FROM (SELECT group_concat(id) AS c FROM p) AS g", [P]).template.relation is not None
