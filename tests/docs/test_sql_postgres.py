"""docs/sql.md keeps its word on PostgreSQL: every example is planned as it says, and every function is named there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.dialects.postgres.bind.signatures import FUNCTIONS, SPECIAL
from tests.docs.pages import code_words, page
from tests.support.postgres import VERSIONS, Servers

_SCHEMA = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text, city text COLLATE ucs_basic, "  # every server has that one
    "token uuid)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int, quantity int, price float8, total numeric(9,2), "
    "note varchar(20), paid bool, token uuid, day date, placed timestamptz, about jsonb, tags text[])",
    "INSERT INTO customers SELECT n, 'name ' || n, 'Porto', md5(n::text)::uuid FROM generate_series(1, 9) n",
    "INSERT INTO orders SELECT n, 10 - n, n, 2.6, n, 'n', true, md5(n::text)::uuid, '2024-01-01'::date + n, "
    "'2024-01-01 12:00+02'::timestamptz + n * '1 hour'::interval, "
    "jsonb_build_object('size', n, 'gift', n > 3), ARRAY['gift', 'late'] FROM generate_series(1, 8) n",
)


def _examples() -> list[tuple[str, str]]:
    lines = [line for line in page("sql.md").section("On PostgreSQL").splitlines() if line.startswith("| ")][1:]
    cells = [line.replace("\\|", "\N{REPLACEMENT CHARACTER}").split(" | ") for line in lines]
    return [
        (row[1].strip("`"), row[2].removesuffix(" |").strip("`").replace("\N{REPLACEMENT CHARACTER}", "|"))
        for row in cells
        if len(row) == 3  # the lists of operators and functions have two columns
    ]


@pytest.fixture(scope="module")
def db(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[headwater.Database]:
    server = servers[VERSIONS[0]]
    with server.database() as database:
        with server.connect(database) as setting_up:
            for statement in _SCHEMA:
                setting_up.execute(statement.encode())
        here: Path = tmp_path_factory.mktemp("postgres")
        with headwater.connect(server.url(database), runner="inline", data_dir=here) as opened:
            yield opened


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "sql"), _examples())
def test_an_example_is_live_by_its_strategy(db: headwater.Database, strategy: str, sql: str) -> None:
    live = db.query(sql, live=True)
    assert (live.state, live.strategy) == ("ready", strategy)
    db.verify(live)
    live.abort(forget=True)


def test_every_function_is_named() -> None:
    told = code_words(page("sql.md").section("On PostgreSQL"))
    assert {*FUNCTIONS, *SPECIAL} <= told, sorted({*FUNCTIONS, *SPECIAL} - told)
