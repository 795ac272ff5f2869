"""Formats of to_char against a real server: what we read of one, PostgreSQL reads the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater.dialects.postgres.literals.to_char_format import NAMES, NUMBERS, pieces
from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import MULTIPLIER, tries
from tests.support.postgres import VERSIONS, Servers

_WORDS = (*NUMBERS, *NAMES)
_PIECES = (
    *_WORDS,
    *(word.lower() for word in _WORDS),
    *(word.upper() for word in NAMES),
    *(
        "FM",
        "FM",
        "-",
        ":",
        " ",
        ".",
        ",",
        "/",
        '"T"',
        '"at "',
        "Y",
        "D",
        "S",
        "M",
        "TH",
        "W",
        "I",
        "J",
        "TZ",
        "m",
        "1",
    ),
)
_REFUSED = (
    "",
    "SSSS",
    "IDDD",
    "Y,YYY",
    "DDth",
    "TMMonth",
    "YYYYY",
    "A.M.",
    "x",
    "yyyY",
    "HH2",
    '"a',
    "\\a",
    "FM",
    "J",
    "OF",
)


def _formats() -> list[str]:
    chance = random.Random(3)
    made = ["".join(chance.choices(_PIECES, k=chance.randrange(1, 6))) for _ in range(600 * MULTIPLIER)]
    return [format for format in dict.fromkeys(made) if pieces(format) is not None]


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    expressions = [f"to_char(t, '{format}')" for format in _formats()]
    with against(servers[request.param], {"t": "timestamp"}, expressions) as world:
        yield world


@settings(tries(2), phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(st.tuples(st.datetimes().map(str)), min_size=4, max_size=4))
def test_a_format_writes_what_postgres_writes(world: Against, rows: list[tuple[str]]) -> None:
    world.check([*rows, ("2024-12-30 00:05:09.07",), ("0044-01-01 12:00 BC",), ("infinity",)])


@pytest.mark.parametrize("format", _REFUSED)
def test_what_is_not_certain_is_left_to_the_origin(format: str) -> None:
    assert pieces(format) is None
