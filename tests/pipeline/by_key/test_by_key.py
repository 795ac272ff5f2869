"""Tables that are held by key: of a large table only the rows that subscribers ask for are read, held and followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.model.limits import DEFAULT
from tests.support.databases import Place, place, rows
from tests.support.postgres import VERSIONS, Servers

BY_KEY = dataclasses.replace(DEFAULT, partial_rows_min=0)
COUNT = 200


@pytest.fixture(params=["memory", "sqlite", *(f"postgres {version}" for version in VERSIONS)])
def url(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shop.db'}"
    else:
        server = servers[request.param.split()[1]]
        with server.database() as database:
            yield server.url(database)


@pytest.fixture
def shop(url: str, tmp_path: Path) -> Iterator[Place]:
    with place("embedded", tmp_path / "data", url=url, limits=BY_KEY) as here:
        here.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, note TEXT)")
        here.write_together(*(f"INSERT INTO orders VALUES ({n}, {n % 10}, 'n{n}')" for n in range(COUNT)))
        yield here


def held(here: Place) -> int:
    """How many rows of the table the cell holds."""
    return len(here.server.pipeline.runner._cells[0]._dataflow._state.stores["orders"])  # type: ignore[attr-defined]


def test_a_query_for_one_row_copies_one_row(shop: Place) -> None:
    live = shop.db.query("SELECT note FROM orders WHERE id = 7", live=True)
    assert rows(live) == [{"note": "n7"}]
    assert live.wait(shop.write("UPDATE orders SET note = 'seven' WHERE id = 7"))
    assert rows(live) == [{"note": "seven"}]
    assert live.wait(shop.write("UPDATE orders SET note = 'eight' WHERE id = 8"))
    assert live.wait(shop.write("DELETE FROM orders WHERE id = 7"))
    assert rows(live) == []
    assert live.wait(shop.write("INSERT INTO orders VALUES (7, 1, 'again')"))
    assert rows(live) == [{"note": "again"}]
    shop.db.verify(live)
