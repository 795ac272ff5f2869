"""The workload of the convergence tests: a schema, live queries over it, and writers that journal what they do.

Run as a program it is one writer process: random transactions of 1 to 50 changes, with key changes, REPLACE, rollbacks,
savepoints and delete-then-insert of one key, each with its statements in the journal, inside the same transaction.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, status TEXT, total REAL, note TEXT);
CREATE TABLE stock (site TEXT NOT NULL, sku INTEGER NOT NULL, amount INTEGER, price REAL, tag BLOB,
                    PRIMARY KEY (site, sku)) WITHOUT ROWID;
CREATE TABLE visits (customer INTEGER, page TEXT, ms INTEGER);
CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT UNIQUE COLLATE NOCASE, age, boss INTEGER
                     REFERENCES people(id) ON DELETE SET NULL);
CREATE TABLE journal (id INTEGER PRIMARY KEY, writer INTEGER, statements TEXT);
"""

Queries = tuple[tuple[str, tuple[Any, ...]], ...]
QUERIES: Queries = (
    ("SELECT * FROM orders", ()),
    ("SELECT id, status, total FROM orders ORDER BY total DESC, status LIMIT 10", ()),
    ("SELECT id, total * 2 AS twice, upper(status) AS s FROM orders WHERE total > 20 OR note IS NULL", ()),
    ("SELECT id, total FROM orders WHERE customer = ? ORDER BY id", (3,)),
    ("SELECT id, total FROM orders WHERE customer = ? ORDER BY id", (5,)),
    ("SELECT id, note FROM orders ORDER BY note NULLS LAST, id DESC LIMIT 7 OFFSET 3", ()),
    ("SELECT id, CASE WHEN total > 50 THEN 'big' WHEN total IS NULL THEN '?' ELSE 'small' END AS size FROM orders", ()),
    ("SELECT status, id FROM orders WHERE status IN ('new', 'paid') AND id % 2 = 0 ORDER BY status DESC", ()),
    ("SELECT site, sku, amount FROM stock", ()),
    ("SELECT sku, amount, price FROM stock WHERE site = :site ORDER BY amount DESC, sku", ({"site": "b"},)),
    ("SELECT site || '/' || sku AS place, coalesce(amount, 0) * price AS worth FROM stock WHERE price < 80", ()),
    ("SELECT site, sku, tag FROM stock WHERE tag IS NOT NULL ORDER BY length(tag), site, sku LIMIT 12", ()),
    ("SELECT * FROM stock ORDER BY price, amount LIMIT 5", ()),
    ("SELECT customer, page FROM visits", ()),
    ("SELECT page, ms FROM visits ORDER BY ms DESC LIMIT 9", ()),
    ("SELECT page, ms / 10 AS tens FROM visits WHERE customer BETWEEN 2 AND 6 AND page LIKE '%A%'", ()),
    ("SELECT page FROM visits WHERE customer = ? ORDER BY page", (4,)),
    ("SELECT id, lower(email) AS mail, age FROM people", ()),
    ("SELECT id, age, typeof(age) AS kind FROM people WHERE age > 30 ORDER BY age DESC", ()),
    ("SELECT id, email, boss FROM people WHERE email = ? OR boss IS NULL ORDER BY email", ("ANN@x",)),
)

RELATIONAL: Queries = (
    ("SELECT o.id, o.status, p.email FROM orders o JOIN people p ON p.id = o.customer", ()),
    (
        "SELECT p.id, o.id AS oid, o.note FROM people p LEFT JOIN orders o ON o.customer = p.id ORDER BY p.id, o.id",
        (),
    ),
    (
        "SELECT o.id, s.sku FROM orders o JOIN stock s ON s.sku = o.id % 12 AND amount > customer WHERE status = ?",
        ("paid",),
    ),
    ("SELECT a.id, b.id AS other FROM orders a JOIN orders b ON b.customer = a.customer AND b.id > a.id", ()),
    ("SELECT p.id, v.page FROM people p FULL JOIN visits v ON v.customer = p.id", ()),
    ("SELECT customer, count(*) AS n, max(id) AS newest FROM orders GROUP BY customer ORDER BY n DESC", ()),
    ("SELECT status, count(DISTINCT customer) AS n, min(note) AS first FROM orders WHERE id > 5 GROUP BY status", ()),
    ("SELECT site, sum(amount) AS amount, count(tag) AS tags FROM stock GROUP BY site HAVING count(*) > 3", ()),
    ("SELECT count(*) AS n, sum(ms) AS ms, avg(ms) AS mean FROM visits", ()),
    (
        "SELECT p.id, count(o.id) AS n FROM people p LEFT JOIN orders o ON o.customer = p.id "
        "GROUP BY p.id ORDER BY n DESC, p.id LIMIT 4",
        (),
    ),
    ("SELECT id, status FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.customer)", ()),
    ("SELECT id FROM orders WHERE customer NOT IN (SELECT boss FROM people WHERE boss IS NOT NULL)", ()),
    ("SELECT id, status FROM orders o WHERE total > 60 OR EXISTS (SELECT 1 FROM visits v WHERE v.customer = o.id)", ()),
    ("SELECT DISTINCT customer, status FROM orders", ()),
    ("SELECT customer FROM orders UNION SELECT customer FROM visits", ()),
    ("SELECT customer, id FROM orders UNION ALL SELECT customer, ms FROM visits", ()),
    ("SELECT customer FROM visits EXCEPT SELECT customer FROM orders WHERE status = 'sent'", ()),
    ("SELECT customer FROM visits INTERSECT SELECT customer FROM orders ORDER BY 1", ()),
    ("SELECT o.id, (SELECT count(*) FROM visits v WHERE v.customer = o.customer) AS seen FROM orders o", ()),
    (
        "WITH busy AS (SELECT customer, count(*) AS n FROM orders GROUP BY customer) "
        "SELECT b.customer, b.n, s.amount FROM busy b JOIN stock s ON s.sku = b.n WHERE s.site = :site",
        ({"site": "a"},),
    ),
)


def create(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(SCHEMA)
    db.close()


class Statements:
    """Random statements, each with its parameters. The database is asked only through the statements themselves."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def one(self) -> tuple[str, list[Any]]:
        make = self._random.choice(
            (self._order, self._order, self._order_update, self._stock, self._stock_move, self._visit, self._person)
        )
        return make()

    def _pick(self, statements: list[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
        return self._random.choice(statements)

    def _order(self) -> tuple[str, list[Any]]:
        pick = self._random
        row = [
            pick.randrange(60),
            pick.randrange(8),
            pick.choice(["new", "paid", "sent", None]),
            pick.choice([round(pick.uniform(0, 100), 2), float(pick.randrange(100)), None]),
            pick.choice(["a", "Ä", "b\x00c", "", None, "zz"]),
        ]
        if pick.random() < 0.3:
            return "DELETE FROM orders WHERE id = ?", row[:1]
        verb = pick.choice(["INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR REPLACE"])
        return f"{verb} INTO orders VALUES (?, ?, ?, ?, ?)", row

    def _order_update(self) -> tuple[str, list[Any]]:
        pick = self._random
        return self._pick(
            [
                ("UPDATE orders SET total = total + ? WHERE customer = ?", [pick.randrange(9), pick.randrange(8)]),
                ("UPDATE OR REPLACE orders SET id = ? WHERE id = ?", [pick.randrange(60), pick.randrange(60)]),
                ("UPDATE orders SET status = ?, note = NULL WHERE id = ?", ["paid", pick.randrange(60)]),
                ("UPDATE orders SET status = status WHERE id < ?", [pick.randrange(60)]),
            ]
        )

    def _stock(self) -> tuple[str, list[Any]]:
        pick = self._random
        key = [pick.choice("abc"), pick.randrange(12)]
        rest = [pick.randrange(-5, 500), pick.uniform(0, 100), pick.choice([None, b"", b"\x00\xff", b"tag"])]
        if pick.random() < 0.25:
            return "DELETE FROM stock WHERE site = ? AND sku = ?", key
        upsert = "ON CONFLICT DO UPDATE SET amount = excluded.amount, tag = excluded.tag"
        return f"INSERT INTO stock VALUES (?, ?, ?, ?, ?) {upsert}", key + rest

    def _stock_move(self) -> tuple[str, list[Any]]:
        pick = self._random
        return (
            "UPDATE OR REPLACE stock SET site = ?, amount = amount - 1 WHERE site = ? AND sku = ?",
            [pick.choice("abc"), pick.choice("abc"), pick.randrange(12)],
        )

    def _visit(self) -> tuple[str, list[Any]]:
        pick = self._random
        row = [pick.randrange(8), pick.choice(["/", "/a", "/A", "/b"]), pick.randrange(100)]
        return self._pick(
            [
                ("INSERT INTO visits VALUES (?, ?, ?)", row),
                ("INSERT INTO visits SELECT * FROM visits WHERE customer = ? LIMIT 2", row[:1]),
                ("UPDATE visits SET ms = ms + 1 WHERE customer = ? AND page = ?", row[:2]),
                ("DELETE FROM visits WHERE customer = ? OR ms < ?", [row[0], pick.randrange(20)]),
            ]
        )

    def _person(self) -> tuple[str, list[Any]]:
        pick = self._random
        row = [
            pick.randrange(20),
            pick.choice(["ann@x", "ANN@x", "bob@x", "cy@x", "di@x", "ed@x", None]),
            pick.choice([pick.randrange(90), pick.uniform(0, 90), "old", None, 2**60 + 1]),
            None,
        ]
        return self._pick(
            [
                ("INSERT OR REPLACE INTO people VALUES (?, ?, ?, ?)", row),
                ("UPDATE OR IGNORE people SET boss = ? WHERE id = ?", [pick.randrange(20), pick.randrange(20)]),
                ("UPDATE OR IGNORE people SET age = ? WHERE id = ?", [row[2], row[0]]),
                ("DELETE FROM people WHERE id = ?", row[:1]),
            ]
        )


def write(path: Path, writer: int, count: int, changes_max: int = 50, pause_s: float = 0.0) -> None:
    """`count` committed transactions, and some rolled back, with a pause after each."""
    pick = random.Random(writer)
    statements = Statements(pick)
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA foreign_keys = OFF")
    done = 0
    while done < count:
        batch = [statements.one() for _ in range(_size(pick, changes_max))]
        db.execute("BEGIN IMMEDIATE")
        for sql, params in batch:
            db.execute(sql, params)
        if pick.random() < 0.1:
            db.execute("ROLLBACK")
            continue
        text = json.dumps([[sql, [_packed(value) for value in params]] for sql, params in batch])
        db.execute("INSERT INTO journal (writer, statements) VALUES (?, ?)", (writer, text))
        db.execute("COMMIT")
        done += 1
        time.sleep(pause_s)
    db.close()


def _size(pick: random.Random, most: int) -> int:
    return min(most, pick.choice([1, 3, 8, 12, 20, 35, 50]))


def _packed(value: Any) -> Any:
    return {"$bytes": value.hex()} if isinstance(value, bytes) else value


def unpacked(value: Any) -> Any:
    return bytes.fromhex(value["$bytes"]) if isinstance(value, dict) else value


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:5]), *map(float, sys.argv[5:]))
