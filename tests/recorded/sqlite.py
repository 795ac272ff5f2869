"""The recording on SQLite: the shop's tables and queries, random transactions, failing rows, altered tables."""

from __future__ import annotations

import random
from pathlib import Path

from tests.recorded.scenario import Query, Recording, Statement, expel, expire, plain, release
from tests.support import shop
from tests.support.databases import Place

TRANSACTIONS = 16
SELECTIVE: tuple[Query, ...] = (
    (
        "SELECT id, json_array(status, note) AS told, total FROM orders WHERE json_valid(note) = 0 OR customer > ?",
        (3,),
    ),
    ("SELECT o.id, p.email, json_quote(p.age) AS age FROM orders o JOIN people p ON p.id = o.customer", ()),
    ("SELECT id, json_quote(note) AS note, status FROM orders ORDER BY status DESC, 2 NULLS LAST", ()),
)
REQUERIED: tuple[Query, ...] = (
    ("SELECT id, total, rank() OVER (ORDER BY total DESC, id) AS place FROM orders ORDER BY place LIMIT 10", ()),
    ("SELECT site, json_group_array(sku) AS skus FROM (SELECT site, sku FROM stock ORDER BY sku) GROUP BY site", ()),
)
FAILING: tuple[Query, ...] = (
    ("SELECT id, abs(amount) AS a FROM big WHERE n = ?", (1,)),
    ("SELECT id, abs(amount) AS a FROM big WHERE n = ?", (2,)),
    ("SELECT n, sum(amount) AS s FROM big GROUP BY n", ()),
    ("SELECT id FROM big WHERE abs(amount) > 3 ORDER BY abs(amount), id LIMIT 2", ()),
)
RETYPED: tuple[Query, ...] = (
    ("SELECT id, n FROM big WHERE n >= 0", ()),
    ("SELECT n, count(*) AS c FROM big GROUP BY n", ()),
    ("SELECT o.id, b.n FROM orders o LEFT JOIN big b ON b.id = o.id", ()),
)
BY_RANGE: tuple[Query, ...] = tuple(
    ("SELECT id, customer, total FROM orders WHERE total BETWEEN ? AND ? ORDER BY total, id LIMIT 4", (low, low + 30.0))
    for low in (0.0, 20.0, 40.0, 60.0)
)
BY_KEYS: tuple[Query, ...] = (
    ("SELECT id, status FROM orders WHERE customer IN (?, ?) ORDER BY id", (1, 2)),
    ("SELECT id, status FROM orders WHERE customer IN (?, ?) ORDER BY id", (2, 7)),
    ("SELECT id, note FROM orders WHERE id = ?", (7,)),
    ("SELECT site, sku, price FROM stock WHERE site = ? AND sku < ?", ("a", 6)),
)
MANY: tuple[Query, ...] = (
    ("SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM many GROUP BY k", ()),
    ("SELECT id, v FROM many WHERE k <> 2 ORDER BY v DESC, id LIMIT 5 OFFSET 2", ()),
    ("SELECT id, v * 2 AS w FROM many WHERE id = ?", (77,)),
    ("SELECT b.n, count(*) AS c FROM big b JOIN many m ON m.k = b.n AND m.v > b.amount GROUP BY b.n", ()),
    ("SELECT DISTINCT k FROM many WHERE v % 7 = 0 AND EXISTS (SELECT 1 FROM big b WHERE b.id = many.k)", ()),
)
_MANY = (
    "CREATE TABLE many (id INTEGER PRIMARY KEY, k INTEGER, v INTEGER)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
    "INSERT INTO many SELECT i, i % 5, i * 7919 % 10007 FROM n",
)
_BIG = "CREATE TABLE big (id INTEGER PRIMARY KEY, n INTEGER, amount INTEGER)"
_LEAST = -(2**63)


def record(directory: Path) -> Path:
    """Its data directory."""
    path = directory / "shop.db"
    shop.create(path)
    recording, pick = Recording(f"sqlite:///{path}", directory / "data"), random.Random(11)
    with recording.boot() as here:
        _first(recording, here, pick)
    with recording.boot(builds=True) as here:
        _second(recording, here, pick)
    return recording.data_dir


def _first(recording: Recording, here: Place, pick: random.Random) -> None:
    recording.write(here, *plain(_BIG, "INSERT INTO big VALUES (1, 1, 4), (2, 2, -5), (3, 1, 6)"))
    recording.write(here, *plain(_MANY[0]))
    recording.write(here, *_random(pick, 60))
    queries = (*shop.QUERIES, *shop.RELATIONAL)
    recording.subscribe(here, queries[::2])
    recording.subscribe(here, (*BY_KEYS, *BY_RANGE, *FAILING))
    for _ in range(TRANSACTIONS):
        recording.write(here, *_random(pick, pick.choice((1, 1, 2, 5, 12))))
    recording.subscribe(here, SELECTIVE, "selective")
    recording.subscribe(here, REQUERIED, "requery")
    recording.subscribe(here, BY_RANGE)  # a second time: each is a snapshot
    recording.write(here, *_random(pick, 3))
    recording.write(here, *plain(f"INSERT INTO big VALUES (4, 1, {_LEAST}), (5, 2, {2**62}), (6, 2, {2**62})"))
    recording.write(here, *plain("UPDATE big SET amount = 7 WHERE id IN (4, 6)"))
    recording.write(here, *plain("UPDATE big SET id = id + 100"))
    recording.write(here, *_random(pick, 150))
    recording.subscribe(here, MANY)
    recording.write(here, *plain(_MANY[1]))
    recording.write(here, *plain("UPDATE many SET v = v + 1 WHERE id % 3 = 0", "DELETE FROM many WHERE id % 11 = 0"))
    recording.unsubscribe(8)
    release(here)
    recording.write(here, *_random(pick, 2))


def _second(recording: Recording, here: Place, pick: random.Random) -> None:
    queries = (*shop.QUERIES, *shop.RELATIONAL)
    recording.subscribe(here, queries[:10:2])
    recording.write(here, *_random(pick, 2))
    expire(here)
    recording.subscribe(here, queries[1::2])
    recording.subscribe(here, (*RETYPED, *MANY))
    recording.subscribe(here, SELECTIVE[:1], "selective")
    for _ in range(TRANSACTIONS):
        recording.write(here, *_random(pick, pick.choice((1, 2, 4))))
    recording.write(here, *plain("ALTER TABLE orders ADD COLUMN extra TEXT DEFAULT 'none'"))
    recording.write(here, *plain("UPDATE orders SET extra = 'some' WHERE id % 3 = 0"))
    recording.write(here, *plain("INSERT INTO big VALUES (7, 'text', 1)"))
    recording.write(here, *plain("UPDATE big SET n = 3 WHERE id = 7"))
    recording.write(here, *_random(pick, 3))
    recording.write(here, *plain("DROP TABLE stock"))
    recording.write(here, *plain("DELETE FROM visits", "DELETE FROM people WHERE id > 3"))
    recording.write(here, *plain("DELETE FROM orders"))
    recording.write(here, *plain("DELETE FROM many WHERE id > 20"))
    expel(here)


def _random(pick: random.Random, count: int) -> list[Statement]:
    statements = shop.Statements(pick)
    return [statements.one() for _ in range(count)]
