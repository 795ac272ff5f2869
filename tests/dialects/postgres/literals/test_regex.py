"""Regular expressions on PostgreSQL against a real server: what we take for one of Python's matches the same texts."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater.dialects.postgres.literals.regex import spelled_out, translated
from tests.dialects.postgres.against_postgres import Against, against
from tests.support.fuzz import MULTIPLIER, tries
from tests.support.postgres import VERSIONS, Servers

pytestmark = pytest.mark.slow

_PIECES = (
    *("a", "b", "A", "é", "-", "_", "%", " ", "0", ".", "^", "$", "|", "(", ")", "*", "+", "?", "{2}", "{1,2}", "{0,}"),
    *(
        "[ab]",
        "[^a]",
        "[a-c0-9]",
        "[.]",
        "\\.",
        "\\\\",
        "\\d",
        "\\w",
        "\\s",
        "\\$",
        "{",
        "]",
        "\n",
        "[a-]",
        "[-a]",
        "[é]",
    ),
)
_SURE = ("^a.b$", "^a|b$", "(a|b)X", "[A-Z].*[a-z]", "", "^$", "a{2,3}", "\\w\\s", "^\\d+$", "(a(b|0))-", "[é-ü]")
_REFUSED = (
    "a**",
    "(?i)a",
    "[[:alpha:]]",
    "\\m",
    "a{3,2}",
    "()",
    "(a+)+",
    "***=a",
    "|a",
    "\\1",
    "[\\d]",
    "a*b*c*d*",
    "*a",
)


_SIMILAR = (*_PIECES, *"ab%%__|()", "\\%", "\\_", "\\|", "\\(")


def _patterns() -> list[str]:
    chance = random.Random(5)
    made = ["".join(chance.choices(_PIECES, k=chance.randrange(1, 6))) for _ in range(400 * MULTIPLIER)]
    return [pattern for pattern in dict.fromkeys([*_SURE, *made]) if translated(pattern) is not None]


def _similar() -> list[str]:
    chance = random.Random(6)
    made = ["".join(chance.choices(_SIMILAR, k=chance.randrange(1, 6))) for _ in range(400 * MULTIPLIER)]
    known = ((pattern, spelled_out(pattern)) for pattern in dict.fromkeys(made))
    return [pattern for pattern, regular in known if regular is not None and translated(regular) is not None]


def _expressions() -> Iterator[str]:
    for place, pattern in enumerate(_patterns()):
        sign = ("~", "~*", "!~", "!~*")[place % 4]
        yield f"t {sign} '{pattern}'"
    yield from (f"t SIMILAR TO '{pattern}'" for pattern in _similar())


_LETTERS = st.sampled_from(
    ["a", "b", "A", "B", "é", "É", "-", "_", "%", " ", "0", "9", ".", "\\", "$", "^", "\n", "X", "{", "]"]
)
_TEXTS = st.none() | st.lists(_LETTERS, max_size=5).map("".join)


@pytest.fixture(params=VERSIONS, scope="module")
def world(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Against]:
    expressions = [*_expressions(), "position('a' IN t)", "position(t IN 'aXb')"]
    with against(servers[request.param], {"t": "text"}, expressions) as world:
        yield world


@settings(tries(3), phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(st.tuples(_TEXTS), min_size=24, max_size=24))
def test_a_pattern_matches_what_it_matches_on_postgres(world: Against, rows: list[tuple[str | None, ...]]) -> None:
    world.check(rows)


@pytest.mark.parametrize("pattern", _REFUSED)
def test_what_may_mean_something_else_or_take_long_is_not_read(pattern: str) -> None:
    assert translated(pattern) is None
