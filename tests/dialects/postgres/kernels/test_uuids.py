"""uuids and bytes on PostgreSQL against a real server: compared, cast, chosen from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_ONE = "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_EXPRESSIONS = [
    *(f"{x} {sign} {y}" for sign in _COMPARED for x, y in (("u", "w"), ("u", _ONE), (f"{_ONE}::uuid", "u"))),
    *(f"u IN ({_ONE}, w)", f"u IN ({_ONE}, NULL)", f"u NOT IN ({_ONE})", "u BETWEEN w AND " + _ONE),
    *(
        "u IS NULL",
        "u::text",
        "coalesce(u, w)",
        f"coalesce(u, {_ONE})",
        "nullif(u, w)",
        "greatest(u, w)",
        "least(u, w)",
    ),
    *("CASE WHEN u < w THEN u ELSE w END", "t::uuid", "u = t::uuid", "u::text = t", "t || u", "concat(u, t)"),
    "u = '{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}'",
]
_BYTES = [
    *(f"x {sign} {y}" for sign in _COMPARED for y in ("y", "'\\x0061'", "'a'", "'\\xff00'::bytea")),
    *("x IN (y, 'a')", "length(x)", "octet_length(x)", "md5(x)", "x::text", "coalesce(x, y)", "greatest(x, y, 'b')"),
]
_UUIDS = st.none() | st.sampled_from([_ONE.strip("'"), "ffffffff-ffff-ffff-ffff-ffffffffffff"]) | st.uuids().map(str)
_TEXTS = _UUIDS | st.sampled_from(
    ["", " ", "{" + _ONE.strip("'") + "}", _ONE.strip("'").upper(), "{a", "a0eebc99", "ä"]
)
_RAW = st.none() | st.binary(max_size=3).map(lambda raw: f"\\x{raw.hex()}") | st.sampled_from(["", "a", "b"])
_COLUMNS = {"u": "uuid", "w": "uuid", "t": "text", "x": "bytea", "y": "bytea"}


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    with against(servers[request.param], _COLUMNS, [*_EXPRESSIONS, *_BYTES]) as world:
        yield world


@settings(tries(6), phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(st.tuples(_UUIDS, _UUIDS, _TEXTS, _RAW, _RAW), min_size=12, max_size=12))
def test_uuids_and_bytes_are_compared_and_cast_as_postgres_does(
    world: Against, rows: list[tuple[str | None, ...]]
) -> None:
    world.check(rows)


def test_every_expression_is_of_the_type_that_postgres_says(world: Against) -> None:
    world.check_types()
