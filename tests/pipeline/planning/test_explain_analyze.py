"""EXPLAIN with figures: what was measured is right, and reads as before. HEADWATER_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path

import pytest

import headwater
from headwater.gateway.explain import explain_at
from tests.support.followed import database_with
from tests.support.postgres import VERSIONS, Servers

GOLDEN = Path(__file__).parent / "golden" / "analyzed.txt"
QUERIES = (
    "SELECT id FROM orders WHERE customer = 3 AND total > 10 ORDER BY total DESC LIMIT 3",
    "SELECT c.name, count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer WHERE o.total > 20 "
    "GROUP BY c.name HAVING n > 1 ORDER BY n DESC LIMIT 2",
    "SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders) UNION SELECT 99",
    "SELECT DISTINCT customer FROM (SELECT customer, total FROM orders ORDER BY total DESC LIMIT 5) top",
    "SELECT c.id, (SELECT max(total) FROM orders o WHERE o.customer = c.id) AS best FROM customers c",
    "SELECT a.id, o.id AS order_id, b.id AS other FROM customers a, customers b, orders o "
    "WHERE a.id = o.customer AND b.id = o.total",
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER)")
        db.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"c{n}") for n in range(8)])
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, n % 6, n * 7 % 50) for n in range(40)])
    db.close()
    return f"sqlite:///{path}"


def test_what_was_measured_reads_as_before(url: str) -> None:
    found = "\n\n".join(f"{sql}\n\n{explain_at(url, sql, analyze=True)}" for sql in QUERIES) + "\n"
    if os.environ.get("HEADWATER_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_joins_are_shown_in_the_order_they_run_with_what_was_expected(url: str) -> None:
    told = explain_at(url, QUERIES[-1])
    assert told.index('join inner on "a.id" = "o.customer"  ~') < told.index("scan orders")
    assert "join inner\n" not in told and "rows  [" not in told
    assert re.search(r"~8 rows  \[7 rows, of 7 pairs, keeps 48", explain_at(url, QUERIES[-1], analyze=True))


def test_the_counts_are_the_origins(url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
        for sql in QUERIES:
            rows = len(db.execute(sql).fetchall())
            shown = re.search(r"^  result (\d+) row", explain_at(url, sql, analyze=True), re.MULTILINE)
            assert shown is not None and int(shown[1]) == rows, sql
    db.close()


def test_a_live_database_tells_it_too(url: str, tmp_path: Path) -> None:
    with headwater.connect(url, runner="inline", data_dir=tmp_path / "data") as db:
        assert "[40 rows]" in db.explain(QUERIES[0], analyze=True)
        assert "[40 rows]" not in db.explain(QUERIES[0])


@pytest.mark.parametrize("name", ["orders", '"Odd name"', "sales.orders"])
def test_a_table_of_any_schema_of_postgresql_is_measured(name: str, servers: Servers) -> None:
    """One outside of public was said not to exist."""
    create = f"""
    CREATE SCHEMA sales;
    CREATE TABLE {name} (id int PRIMARY KEY, price numeric(9, 2), at timestamptz, tags text[]);
    INSERT INTO {name} SELECT n, n / 4.0, now(), ARRAY['a'] FROM generate_series(1, 40) n
    """
    with database_with(servers[VERSIONS[-1]], [create]) as url:
        assert "[40 rows]" in explain_at(url, f"SELECT id, price, at, tags FROM {name} WHERE id > 3", analyze=True)
