"""Every hydration, step and explain has a budget: what goes over it ends with the reason, and others do not notice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import headwater
from headwater.client.database import Database
from headwater.model.errors import LimitExceeded
from headwater.model.limits import DEFAULT, Limits
from tests.support.databases import place
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

NEIGHBOUR = "SELECT id, n FROM orders WHERE n = 3"
PRODUCT = "SELECT a.id AS a, b.id AS b FROM orders a, orders b"
TIGHT = Limits(work_pairs_max=1000)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("CREATE TABLE wide (id INTEGER PRIMARY KEY, n INTEGER)")
    return path


def fill(shop: Path, table: str, count: int) -> None:
    with closing(sqlite3.connect(shop)) as db, db:
        db.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(n, n % 7) for n in range(count)])


@contextmanager
def opened(shop: Path, tmp_path: Path, limits: Limits = DEFAULT) -> Iterator[Database]:
    with place("embedded", tmp_path / "data", url=f"sqlite:///{shop}", limits=limits) as here:
        yield here.db


@pytest.mark.parametrize(
    "tables", ["orders a, orders b, orders c", ", ".join(f"orders o{n}" for n in range(8))], ids=["three", "eight"]
)
def test_a_product_of_tables_is_refused_and_others_go_on(tables: str, shop: Path, tmp_path: Path) -> None:
    fill(shop, "orders", 718)
    with opened(shop, tmp_path) as db:
        neighbour = db.query(NEIGHBOUR, live=True)
        with pytest.raises(LimitExceeded, match=r"pairs of rows at once, more than the 134,217,728 allowed"):
            db.query(f"SELECT count(*) AS n FROM {tables}", live=True)
        assert neighbour.wait(db.execute("INSERT INTO orders VALUES (9000, 3)"))
        assert {"id": 9000, "n": 3} in neighbour.rows
        assert db.status()["failure"] is None


def test_many_pairs_within_the_budget_are_compared_by_a_process_of_their_own(shop: Path, tmp_path: Path) -> None:
    fill(shop, "orders", 40)
    limits = Limits(build_pairs_min=1000)
    with opened(shop, tmp_path, limits) as db:
        live = db.query(PRODUCT, live=True)
        assert len(live.rows) == 1600
        live.wait(db.execute("DELETE FROM orders WHERE id = 7"))
        db.verify(live)
        assert list((tmp_path / "data").glob("hydration/built-*")) or list((tmp_path / "data").glob("cells/*/state/*"))


def test_a_transaction_over_budget_ends_its_query_alone(shop: Path, tmp_path: Path) -> None:
    fill(shop, "orders", 20)
    with opened(shop, tmp_path, TIGHT) as db:
        neighbour, culprit = db.query(NEIGHBOUR, live=True), db.query(PRODUCT, live=True)
        with db.transaction() as tx:
            for n in range(100, 150):
                tx.execute(f"INSERT INTO orders VALUES ({n}, 3)")
        assert neighbour.wait(tx.position)
        eventually(lambda: culprit.state == "closed")
        assert culprit.reason is not None and "pairs of rows at once, more than the 1,000 allowed" in culprit.reason
        assert "bug" not in culprit.reason
        eventually(lambda: neighbour.state == "ready")  # while its cell fails, it is stale
        db.verify(neighbour)
        with pytest.raises(headwater.HeadwaterError, match="retry in"):
            db.query(PRODUCT, live=True)
        eventually(lambda: db.status()["failure"] is None)


def test_transactions_that_are_too_much_only_together_are_taken_one_by_one(shop: Path, tmp_path: Path) -> None:
    fill(shop, "orders", 15)
    with opened(shop, tmp_path, TIGHT) as db:
        live = db.query(PRODUCT, live=True)
        assert len(live.rows) == 225
    with closing(sqlite3.connect(shop, isolation_level=None)) as writer:  # open all the time: the WAL stays
        for n in range(8):  # each compares some 64 pairs, all of them together thousands
            for id in range(15):
                writer.execute("UPDATE orders SET n = ? WHERE id = ?", (n, id))
        with opened(shop, tmp_path, TIGHT) as db:
            live = db.query(PRODUCT, live=True)
            assert live.wait(db.position())
            db.verify(live)
            eventually(lambda: live.state == "ready")


def fill_texts(file: Path, rows: int, letters: int) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, t TEXT)")
        db.executemany("INSERT INTO texts VALUES (?, ?)", [(id, "a" * letters) for id in range(rows)])
        db.commit()


def longer(times: int) -> str:
    return f"replace(t, 'a', '{'b' * times}')"


def test_a_value_that_is_too_long_is_an_error_of_its_row(shop: Path, tmp_path: Path) -> None:
    fill_texts(shop, 4, 1_000_000)
    with opened(shop, tmp_path) as db:
        live = db.query(f"SELECT id, {longer(100)} AS long FROM texts WHERE id > 2", live=True)
        assert live.reason is not None and "too big" in live.reason
        assert live.wait(db.execute("DELETE FROM texts WHERE id > 2"))
        assert live.rows == [] and live.state == "ready"


def test_values_that_are_too_long_together_end_their_query_alone(shop: Path, tmp_path: Path) -> None:
    fill_texts(shop, 40, 200_000)
    with opened(shop, tmp_path) as db:
        neighbour = db.query(NEIGHBOUR, live=True)
        with pytest.raises(headwater.HeadwaterError, match="bytes of values at once"):
            db.query(f"SELECT id, {longer(50)} AS long FROM texts", live=True)
        assert neighbour.wait(db.execute("INSERT INTO orders VALUES (9000, 3)"))
        assert {"id": 9000, "n": 3} in neighbour.rows


@pytest.mark.parametrize(
    "expression",
    [
        "length(hex(zeroblob(30000000)))",
        "length(zeroblob(n))",
        "length(replace(n, '1', n || 'x'))",
        f"length(replace(n, '1', '{'x' * 300}'))",
        f"length({'hex(' * 9}n{')' * 9})",
        f"length(replace(replace(n, '1', '{'1' * 20}'), '1', '{'1' * 20}'))",
    ],
)
def test_what_grows_inside_an_expression_is_left_to_the_database(expression: str, shop: Path, tmp_path: Path) -> None:
    """Nobody sees such a value: nothing would weigh it."""
    with opened(shop, tmp_path) as db:
        assert "may make a value of any length" in db.explain(f"SELECT id, {expression} AS t FROM orders")


@pytest.mark.parametrize(
    "expression",
    ["length(hex(zeroblob(16)))", "upper(replace(replace(n, '1', 'one'), '2', 'two'))", "quote(hex(n)) || 'x'"],
)
def test_what_grows_little_is_followed(expression: str, shop: Path, tmp_path: Path) -> None:
    with opened(shop, tmp_path) as db:
        assert "strategy incremental" in db.explain(f"SELECT id, {expression} AS t FROM orders")


def test_explain_analyze_of_a_product_is_refused_in_a_sentence(shop: Path, tmp_path: Path) -> None:
    fill(shop, "orders", 718)
    with opened(shop, tmp_path) as db:
        with pytest.raises(LimitExceeded, match="pairs of rows at once"):
            db.explain("SELECT count(*) AS n FROM orders a, orders b, orders c", analyze=True)
        assert "orders" in db.explain("SELECT count(*) AS n FROM orders a, orders b, orders c")


@pytest.mark.parametrize("format", ["'%1000000000d'", "'%.5000f'", "'%*d'", "'%' || n || 'd'"])
def test_what_printf_makes_of_any_length_is_left_to_the_database(format: str, shop: Path, tmp_path: Path) -> None:
    with opened(shop, tmp_path) as db:
        assert "strategy incremental" in db.explain("SELECT id, printf('%5.2f|%s', n, id) AS t FROM orders")
        assert "may make a value of any length" in db.explain(f"SELECT id, printf({format}, n) AS t FROM orders")


def test_what_the_database_makes_too_long_ends_its_query_and_is_never_null(shop: Path, tmp_path: Path) -> None:
    """At a limit of its length, SQLite's printf() gives NULL and no error."""
    fill(shop, "orders", 4)
    with opened(shop, tmp_path) as db:
        neighbour = db.query(NEIGHBOUR, live=True)
        with pytest.raises(headwater.HeadwaterError, match="needs more memory than it may use"):
            db.query("SELECT id, printf('%300000000d', n) AS long FROM orders", live=True)
        assert neighbour.wait(db.execute("INSERT INTO orders VALUES (9000, 3)"))
        assert {"id": 9000, "n": 3} in neighbour.rows
