"""json and jsonb on PostgreSQL against a real server: taken apart, asked, compared, and read as other types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_STEPS = ("'a'", "'b'", "'ä\"'", "'0'", "0", "1", "-1", "''")
_PATHS = ("'{}'", "'{a}'", "'{a,b}'", "'{0,a}'", "'{b,-1}'", '\'{"ä\\"",1}\'', "'{a,NULL}'", "'{1x}'")
_ASKED = ("'{}'", "'[]'", "'1'", "'\"a\"'", "'[1, 1.0]'", """'{"b": [], "a": 1}'""", "'[[1]]'", "'null'", "b")
_EXPRESSIONS = [
    *(f"{doc} {sign} {step}" for doc in "abj" for sign in ("->", "->>") for step in _STEPS),
    *(f"{doc} {sign} {path}" for doc in "aj" for sign in ("#>", "#>>") for path in _PATHS),
    *("a->'a'->'b'", "a->'a'->>'b'", "j->'a'->>0", "a->>'a' = 'x'", "(a->'a') IS NULL", "a->>'a' || b::text"),
    *(f"a @> {other}" for other in _ASKED),
    *(f"a {sign} {other}" for sign in ("=", "<>") for other in _ASKED),
    *("a <@ b", 'a <@ \'{"a": 1, "b": [1, 2]}\'', "a ? 'a'", "a ? 'b'", "b ? ''"),
    *("jsonb_typeof(a)", "json_typeof(j)", "jsonb_array_length(a)", "json_array_length(j)", "a::text", "j::text"),
    *("coalesce(a, b)", """coalesce(a, '{"bb": 1.50, "a": ["é\\n"], "c": {}}')""", "CASE WHEN a = b THEN a ELSE b END"),
]
_READ = [
    *("t::int", "t::int2", "t::bigint", "t::float8", "t::bool", "(a->>'a')::int", "(a->>0)::float8 > 1"),
    *("(a->>'a')::bool AND (b->>'a')::bool", "(a->>'a')::int = (b->>'a')::int"),
]
_COLUMNS = {"a": "jsonb", "b": "jsonb", "j": "json", "t": "text"}
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([1.0, 1.5, -0.25, 1e3, "a", "b", ""])
)
_DOCUMENTS = st.recursive(
    _LEAVES | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "aa", 'ä"', "", "0"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _written(value: Any) -> st.SearchStrategy[str]:
    return st.sampled_from([None, 1]).map(lambda indent: json.dumps(value, indent=indent))


_TEXTS = st.none() | _DOCUMENTS.flatmap(_written)
_NUMBERS = st.none() | st.sampled_from(
    [
        *(
            "1",
            " -7 ",
            "+5",
            "1.5",
            ".5e1",
            "1e400",
            "1e-400",
            "40000",
            "3000000000",
            "9223372036854775808",
            "t",
            "OFF",
        ),
        *(" no", "", " ", "x", "nan", "-Infinity", "inf", "1 2", "--1", "1e", "tr", "of", "o", "--", "٣", "9" * 30),
    ]
)
_DOUBLED = '{"a": 1, "b":[ 1 ,2 ] , "a" :{"b" : "x" }}'


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    with against(servers[request.param], _COLUMNS, [*_EXPRESSIONS, *_READ]) as world:
        yield world


@settings(tries(6), phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(st.tuples(_TEXTS, _TEXTS, _TEXTS, _NUMBERS), min_size=16, max_size=16))
@example(rows=[(_DOUBLED, _DOUBLED, _DOUBLED, None), ("[1, 1.0]", '"\\u00e4\\ud83d\\ude00"', '"\\u00e4\\/\\n"', None)])
@example(rows=[(None, None, '"\\u0000"', None), ("1", "true", '{"a": "\\u0000"}', None)])
def test_documents_are_taken_apart_as_postgres_does(world: Against, rows: list[tuple[str | None, ...]]) -> None:
    world.check(rows)


def test_every_expression_is_of_the_type_that_postgres_says(world: Against) -> None:
    world.check_types()
