"""docs/sql.md keeps its word: every example is planned as its table says, and every function we know is named there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.demo.shop import Size
from headwater.demo.shop_file import create_shop
from headwater.dialects.sqlite.functions import known
from tests.docs.pages import code_words, page, table_rows

SECTIONS = {"Followed incrementally": "incremental", "Asked by key": "selective", "Asked again": "requery"}


def _examples(section: str) -> list[str]:
    rows = table_rows(page("sql.md").section(section))[1:]
    return [row[1].strip("`") for row in rows]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headwater.Database]:
    here: Path = tmp_path_factory.mktemp("shop")
    shop = create_shop(here / "shop.db", size=Size(customers=20, orders=60, orders_max=120))
    with headwater.connect(f"sqlite:///{shop}", runner="inline", data_dir=here / "data") as opened:
        yield opened


@pytest.mark.parametrize(("section", "sql"), [(section, sql) for section in SECTIONS for sql in _examples(section)])
def test_an_example_is_live_by_the_strategy_of_its_section(db: headwater.Database, section: str, sql: str) -> None:
    live = db.query(sql, live=True)
    assert (live.state, live.strategy) == ("ready", SECTIONS[section])
    assert sorted(map(repr, live.rows)) == sorted(map(repr, db.query(sql))) != []
    live.abort(forget=True)


@pytest.mark.parametrize("sql", _examples("Refused"))
def test_what_is_said_to_be_refused_is(db: headwater.Database, sql: str) -> None:
    with pytest.raises(headwater.SqlError):
        db.query(sql, live=True)


def test_every_function_is_named() -> None:
    told = code_words(page("sql.md").section("Followed incrementally"))
    assert known().keys() <= told, sorted(known().keys() - told)
