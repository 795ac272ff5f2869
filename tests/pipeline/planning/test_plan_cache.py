"""Plans that were learnt: whatever the text and the values, they are the plans that planning gives."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.errors import HeadwaterError
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.pipeline.planning.plan_cache import PlanCache
from headwater.plan.planner import Planned, plan
from headwater.sql.syntax.parameters import Given
from tests.support.fuzz import tries

TABLES = {
    "t": Table(
        "t",
        (
            Column("id", Type.INTEGER, "INTEGER", nullable=False),
            Column("n", Type.INTEGER, "INTEGER"),
            Column("r", Type.REAL, "REAL"),
            Column("s", Type.TEXT, "TEXT"),
            Column("c", Type.TEXT, "TEXT", "NOCASE"),
            Column("b", Type.BLOB, "BLOB"),
            Column("x", Type.ANY, ""),
        ),
        ("id",),
    )
}
CONDITIONS = (
    "n = {}",
    "{} = n",
    "s = {}",
    "c = {}",
    "b = {}",
    "r = {}",
    "x = {}",
    "n = {} AND n = {}",
    "n = {} AND s = {}",
    "s = {} AND n = 5 AND b = {}",
    "n = {} OR s = {}",
    "n > {}",
    "n = {} + 1",
    "n = abs({})",
    "n IN ({})",
    "n IN ({}, {})",
    "n IN ({}, 2, {})",
    "c IN ({}, {})",
    "b IN ({}, {})",
    "x IN ({}, {})",
    "r IN ({}, {}) AND s > {}",
    "n >= {} AND n < {}",
    "n BETWEEN {} AND {}",
    "s LIKE {}",
    "s = {} COLLATE NOCASE",
    "n IS {}",
    "NOT n = {}",
    "{} = {}",
    "{}",
    "n = coalesce({}, 1)",
    "id = {} AND (n = {} OR n IS NULL)",
)
TAILS = ("", " ORDER BY n", " ORDER BY n LIMIT {}", " LIMIT {} OFFSET {}", " ORDER BY s LIMIT 5 OFFSET {}")
LISTS = ("id", "*", "id, n + {} AS m", "{} AS v, id")
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-2, 3),
    st.integers(-(2**64), 2**64),
    st.sampled_from([1 << 62, (1 << 62) + 12345, 2**63 - 1, -(2**63)]),
    st.text(max_size=3),
    st.sampled_from(["1", " 1", "1.0", "a", "A", "\0", "'", "\N{REPLACEMENT CHARACTER} probe 0", "\ud800"]),
    st.binary(max_size=2),
    st.floats(),
    st.sampled_from([1.0, 0.0, -0.0]),
    st.none(),
    st.booleans(),
)


POSTGRES = {
    "t": Table(
        "t",
        (
            Column("id", Type.INTEGER, "integer", "C", nullable=False),
            Column("n", Type.INTEGER, "integer", "C"),
            Column("i2", Type.INTEGER, "smallint", "C"),
            Column("i8", Type.INTEGER, "bigint", "C"),
            Column("r", Type.REAL, "double precision", "C"),
            Column("s", Type.TEXT, "text", "C"),
            Column("u", Type.UUID, "uuid", "C"),
            Column("d", Type.DATE, "date", "C"),
            Column("t", Type.TIMESTAMP, "timestamp without time zone", "C"),
            Column("z", Type.TIMESTAMPTZ, "timestamp with time zone", "C"),
        ),
        ("id",),
        dialect="postgres",
    )
}
POSTGRES_CONDITIONS = (
    *(f"{name} = {{}}" for name in POSTGRES["t"].names),
    "n IN ({}, {})",
    "i8 IN ({}, 5, {})",
    "n < {}",
    "i8 BETWEEN {} AND {}",
    "n = {} AND i8 = {}",
    "d >= {}",
    "s > {}",
    "u IN ({}, {})",
    "u > {}",
    "z BETWEEN {} AND {}",
    "t < {}::date",
)
WIDTHS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([1, 2, 2**15, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 3 * 10**9, 2**63 - 1, 2**63]),
    st.sampled_from(["1", "3000000000", "a", "2024-01-31", "c0ffee00-0000-0000-0000-000000000000"]),
    st.sampled_from([UUID(int=1), UUID(int=2), str(UUID(int=1)), str(UUID(int=10)).upper(), date(2024, 1, 31)]),
    st.sampled_from([datetime(2024, 1, 31, 1), datetime(2024, 1, 31, 1, tzinfo=UTC), datetime.max]),
    st.sampled_from([datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))), datetime.min.replace(tzinfo=UTC)]),
)


def planned(sql: str, params: Given, tables: dict[str, Table] = TABLES) -> Planned | str:
    try:
        return plan(sql, tables, params)
    except (HeadwaterError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}"


def with_placeholders(text: str, style: str) -> tuple[str, int]:
    count = text.count("{}")
    marks = {"?": ["?"] * count, "$": [f"${n}" for n in range(count, 0, -1)], ":": [f":p{n}" for n in range(count)]}
    return text.format(*marks[style]), count


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str, int]:
    """The text, the style of its placeholders, and how many there are."""
    style = draw(st.sampled_from("?$:"))
    condition = " WHERE " + draw(st.sampled_from(CONDITIONS)) if draw(st.integers(0, 5)) else ""
    text = f"SELECT {draw(st.sampled_from(LISTS))} FROM t{condition}{draw(st.sampled_from(TAILS))}"
    sql, count = with_placeholders(text, style)
    return sql, style, count


@pytest.mark.slow
@tries(400)
@given(queries(), st.data())
def test_what_was_learnt_is_what_planning_gives(query: tuple[str, str, int], data: st.DataObject) -> None:
    sql, style, count = query
    plans = PlanCache(lambda text, params: plan(text, TABLES, params))
    for _ in range(4):
        drawn = data.draw(st.lists(VALUES, min_size=count, max_size=count))
        params: Any = {f"p{n}": value for n, value in enumerate(drawn)} if style == ":" else drawn
        try:
            found: Planned | str = plans.plan(sql, params)
        except (HeadwaterError, UnicodeError) as error:
            found = f"{type(error).__name__}: {error}"
        assert repr(found) == repr(planned(sql, params))


@tries(100)
@given(st.sampled_from(POSTGRES_CONDITIONS), st.data())
def test_so_it_is_on_postgres_where_a_column_takes_only_so_much(condition: str, data: st.DataObject) -> None:
    sql, count = with_placeholders(f"SELECT id, n FROM t WHERE {condition}", "$")
    plans = PlanCache(lambda text, params: plan(text, POSTGRES, params))
    for _ in range(4):
        params = data.draw(st.lists(WIDTHS, min_size=count, max_size=count))
        try:
            found: Planned | str = plans.plan(sql, params)
        except HeadwaterError as error:
            found = f"{type(error).__name__}: {error}"
        assert repr(found) == repr(planned(sql, params, POSTGRES))


@pytest.mark.parametrize(
    ("sql", "first", "second"),
    [
        ("SELECT id FROM t WHERE n = ?", [1], [2]),
        ("SELECT id FROM t WHERE s = $2 AND n = $1", [1, "a"], [7, "b"]),
        ("SELECT id FROM t WHERE c = :c ORDER BY n LIMIT :most", {"c": "x", "most": 3}, {"c": "Y", "most": 0}),
        ("SELECT id FROM t WHERE b = ? AND n = 4", [b"x"], [b""]),
        ("SELECT id FROM t WHERE n > ? AND n <= ? AND s < ?", [1, 5, "a"], [2, 2, ""]),
        ("SELECT id FROM t WHERE n IN (?, ?, 5)", [3, 1], [7, 9]),
        ("SELECT id FROM t WHERE n = 1", [], []),
        ("SELECT id FROM t WHERE n = $1 LIMIT $1", [1], [9]),
        ("SELECT id FROM t WHERE n = ? AND id = ?", [2**40, 1], [-(2**50), 7]),
    ],
)
def test_the_second_time_nothing_is_parsed(sql: str, first: Given, second: Given) -> None:
    asked: list[str] = []

    def counted(text: str, params: Given) -> Planned:
        asked.append(text)
        return plan(text, TABLES, params)

    plans = PlanCache(counted)
    plans.plan(sql, first)
    learning = len(asked)
    assert plans.plan(sql, second) == plan(sql, TABLES, second)
    assert learning == (2 if first else 1) and len(asked) == learning
    plans.forget()
    plans.plan(sql, second)
    assert len(asked) == 2 * learning


@pytest.mark.parametrize(
    ("sql", "first", "second"),
    [
        ("SELECT id FROM t WHERE u = $1", [UUID(int=1)], [UUID(int=2)]),
        ("SELECT id FROM t WHERE u = $1", [str(UUID(int=1))], [str(UUID(int=2))]),
        ("SELECT id FROM t WHERE u IN ($1, $2)", [UUID(int=2), UUID(int=1)], [UUID(int=1), UUID(int=3)]),
        ("SELECT id FROM t WHERE d >= $1", [date(2024, 1, 31)], [date(1, 1, 1)]),
        ("SELECT id FROM t WHERE z < $1", [datetime(2024, 1, 31, tzinfo=UTC)], [datetime(1, 1, 1, tzinfo=UTC)]),
    ],
)
def test_nor_is_it_for_a_uuid_or_a_moment(sql: str, first: Given, second: Given) -> None:
    asked: list[str] = []

    def counted(text: str, params: Given) -> Planned:
        asked.append(text)
        return plan(text, POSTGRES, params)

    plans = PlanCache(counted)
    plans.plan(sql, first)
    assert plans.plan(sql, second) == plan(sql, POSTGRES, second)
    assert len(asked) == 2


def test_a_parameter_that_is_part_of_the_template_is_planned_every_time() -> None:
    plans = PlanCache(lambda text, params: plan(text, TABLES, params))
    for value in (1, 2, 3):
        assert plans.plan("SELECT id FROM t WHERE n > ?", [value]) == plan(
            "SELECT id FROM t WHERE n > ?", TABLES, [value]
        )


@pytest.mark.slow
def test_only_so_many_plans_are_kept() -> None:
    plans = PlanCache(lambda text, params: plan("SELECT id FROM t", TABLES, params))
    for n in range(5000):
        plans.plan(f"query {n}", [])
    assert len(plans._slots) == 4096
