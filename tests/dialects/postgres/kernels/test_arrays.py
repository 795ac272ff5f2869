"""Arrays against a real server: single elements, membership, containment, equality and length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_COLUMNS = {
    "n": "integer[]",
    "m": "integer[]",
    "t": "text[]",
    "d": "date[]",
    "u": "uuid[]",
    "i": "integer",
    "x": "text",
}
_UUIDS = ("00000000-0000-4000-8000-000000000000", "ffffffff-0000-4000-8000-000000000000")
_EXPRESSIONS = [
    *("n[1]", "n[i]", "n[0]", "t[2]", "d[1]", "u[1]", "-n[1] + 1", "t[1] || 'x'", "d[1] + 1", "(n)[2]", "n[1]::text"),
    *(
        "i = ANY (n)",
        "i <> ALL (n)",
        "1 = ANY (n)",
        "NOT 2 = ANY (n)",
        "x = ANY (t)",
        "'a' = ANY (t)",
        "NULL = ANY (n)",
    ),
    *("'2024-02-29' = ANY (d)", f"'{_UUIDS[0]}' = ANY (u)", "d[1] = ANY (d)", "u[1] = ANY (u)"),
    *(
        "n @> m",
        "n <@ m",
        "n && m",
        "n @> ARRAY[1]",
        "n @> '{1,2}'",
        "t && ARRAY['a', 'b']",
        "t @> '{a,NULL}'",
        "t <@ t",
    ),
    *("n @> '{}'", "ARRAY[1, 2] <@ n", "d @> '{2024-02-29}'", f"u && '{{{_UUIDS[1]}}}'"),
    *("n = m", "n <> m", "n = ARRAY[1, 2]", "t = '{a,b}'", "n IS DISTINCT FROM m", "n IS NULL", "n IN (m, '{1}')"),
    *("array_length(n, 1)", "array_length(n, i)", "array_length(t, 2)", "cardinality(n)", "cardinality(t)"),
    *("array_to_string(t, ', ')", "array_to_string(t, x)", "coalesce(n, m)"),
    *("CASE WHEN i > 1 THEN n ELSE m END", "coalesce(n, '{7,8}')", "nullif(n, m)"),
]
_DATES = ("2024-02-29", "infinity", "0044-03-15 BC", "NULL")


def _array(*items: str) -> st.SearchStrategy[str]:
    some = st.lists(st.sampled_from(items), max_size=4).map(lambda each: "{" + ",".join(each) + "}")
    square = st.lists(st.sampled_from(items), min_size=4, max_size=4).map(
        "{{{{{0[0]},{0[1]}}},{{{0[2]},{0[3]}}}}}".format
    )
    return some | square


_ROWS = st.tuples(
    st.none() | _array("1", "2", "3", "NULL"),
    st.none() | _array("1", "2", "NULL"),
    st.none() | _array("a", "b", '"a b"', '""', '"NULL"', "NULL", "é"),
    st.none() | _array(*_DATES),
    st.none() | _array(*_UUIDS, "NULL"),
    st.none() | st.integers(-1, 3).map(str),
    st.none() | st.sampled_from(["a", "", "a b"]),
)
_EMPTY = ("{}", "{}", "{}", "{}", "{}", None, None)


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    with against(servers[request.param], _COLUMNS, _EXPRESSIONS) as world:
        yield world


@settings(tries(8), phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(_ROWS, min_size=12, max_size=12))
@example(rows=[_EMPTY, (None,) * 7])
def test_arrays_are_taken_as_postgres_takes_them(world: Against, rows: list[tuple[str | None, ...]]) -> None:
    world.check(rows)
