"""The demo's shop: three tables, rows made from a seed, and the small transactions of a day's business.

Works on the SQLite connection, the chance and the time it is handed. Never starts a process and never reads a clock.
"""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT NOT NULL,
    joined_on TEXT NOT NULL
) STRICT;
CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL,
    list_price REAL NOT NULL,
    price REAL NOT NULL,
    stock INTEGER NOT NULL CHECK (stock >= 0),
    reorder_at INTEGER NOT NULL
) STRICT;
CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    product_id INTEGER NOT NULL REFERENCES products (id),
    item TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    total REAL NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('placed', 'paid', 'packing', 'shipped', 'delivered', 'cancelled')),
    city TEXT NOT NULL,
    placed_at TEXT NOT NULL
) STRICT;
CREATE INDEX orders_by_status ON orders (status);
CREATE INDEX orders_by_customer ON orders (customer_id);
"""
EPOCH = dt.datetime(2026, 1, 1, 9, 0)
NEXT_STATUS = {"placed": "paid", "paid": "packing", "packing": "shipped", "shipped": "delivered"}
CITIES = ("Bergen", "Lisbon", "Kyoto", "Porto", "Turku", "Leeds", "Lyon", "Graz", "Ghent", "Oulu", "Cork", "Zadar")
FIRST = (
    "Ada", "Alan", "Barbara", "Edgar", "Frances", "Grace", "Ivan", "Jean", "Joan",
    "Karen", "Kurt", "Lotte", "Mary", "Niels", "Olga", "Radia", "Rosa", "Tony",
)  # fmt: skip
LAST = (
    "Abiteboul", "Backus", "Codd", "Date", "Gray", "Hamilton", "Hopper",
    "Kay", "Lovelace", "Naur", "Noether", "Perlman", "Stonebraker", "Turing",
)  # fmt: skip
MAKES = ("Canvas", "Copper", "Cedar", "Felt", "Linen", "Oak", "Slate", "Walnut", "Wool", "Enamel")
THINGS = {
    "kitchen": (("kettle", 48), ("mug", 14), ("board", 32), ("jar", 11)),
    "desk": (("lamp", 89), ("tray", 27), ("notebook", 16), ("pen", 9)),
    "outdoor": (("flask", 35), ("blanket", 74), ("pack", 128), ("hat", 39)),
}


@dataclass(frozen=True, slots=True)
class Size:
    """How large the shop starts, and what its traffic never lets it pass."""

    customers: int = 240
    orders: int = 600
    orders_max: int = 1_200


SIZE = Size()


def create(db: sqlite3.Connection, *, seed: int = 7, now: dt.datetime = EPOCH, size: Size = SIZE) -> None:
    """The whole shop in one transaction; its last order was placed just before `now`."""
    chance = random.Random(seed)
    customers, products = _customers(chance, size.customers, now), _products(chance)
    db.executescript("BEGIN;" + SCHEMA)
    db.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", customers)
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)", products)
    for age in range(size.orders, 0, -1):
        at, status = now - dt.timedelta(seconds=age * 97), _status_at_age(chance, age)
        _insert_order(db, chance, at, status, chance.randint(1, len(products)))
    db.execute("COMMIT")


def trade(db: sqlite3.Connection, chance: random.Random, now: dt.datetime, size: Size = SIZE) -> None:
    """One transaction of the day's business. Some find nothing to do, and some are rolled back: a shop is like that."""
    weights = [weight for weight, _ in BUSINESS]
    (business,) = chance.choices([business for _, business in BUSINESS], weights)
    db.execute("BEGIN IMMEDIATE")
    try:
        business(db, chance, now, size)
    except SoldOut:
        db.execute("ROLLBACK")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    else:
        db.execute("COMMIT")


class SoldOut(Exception):
    """The order was in, then the shelf turned out to be empty."""


# The rows a shop starts with.


def _customers(chance: random.Random, count: int, now: dt.datetime) -> list[tuple[object, ...]]:
    def joined_on() -> str:
        return (now - dt.timedelta(days=chance.randrange(900))).date().isoformat()

    def name() -> str:
        return f"{chance.choice(FIRST)} {chance.choice(LAST)}"

    return [(id, name(), chance.choice(CITIES), joined_on()) for id in range(1, count + 1)]


def _products(chance: random.Random) -> list[tuple[object, ...]]:
    kinds = [(category, *thing) for category, things in THINGS.items() for thing in things]
    wares = [(f"{make} {thing}", category, cost) for category, thing, cost in kinds for make in MAKES]
    return [
        (id, name, category, price := round(cost * chance.uniform(0.7, 1.6), 2), price, *_stock(chance))
        for id, (name, category, cost) in enumerate(wares, start=1)
    ]


def _stock(chance: random.Random) -> tuple[int, int]:
    return chance.randrange(4, 60), chance.randrange(6, 24)


def _status_at_age(chance: random.Random, age: int) -> str:
    """New orders are at the start of their way, old ones at its end."""
    way = (*NEXT_STATUS, "delivered")
    return "cancelled" if chance.random() < 0.03 else way[min(4, age // 12)]


def _insert_order(db: sqlite3.Connection, chance: random.Random, at: dt.datetime, status: str, product: int) -> int:
    """The quantity that was ordered."""
    (customers,) = db.execute("SELECT max(id) FROM customers").fetchone()
    customer, city = _row(db, "SELECT id, city FROM customers WHERE id = ?", chance.randint(1, customers))
    item, price = _row(db, "SELECT name, price FROM products WHERE id = ?", product)
    quantity = chance.choice((1, 1, 1, 2, 2, 3, 4, 6))
    total, placed_at = round(price * quantity, 2), at.isoformat(sep=" ", timespec="milliseconds")
    db.execute(
        "INSERT INTO orders (customer_id, product_id, item, quantity, total, status, city, placed_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (customer, product, item, quantity, total, status, city, placed_at),
    )
    return quantity


# A day's business. Each function is one transaction's body; `_` marks what it has no use for.


def place_order(db: sqlite3.Connection, chance: random.Random, now: dt.datetime, size: Size) -> None:
    (orders,) = _row(db, "SELECT count(*) FROM orders")
    if orders >= size.orders_max:
        return archive(db, chance, now, size)
    product = _popular_product(db, chance)
    quantity = _insert_order(db, chance, now, "placed", product)
    sold = db.execute(
        "UPDATE products SET stock = stock - ? WHERE id = ? AND stock >= ?", (quantity, product, quantity)
    )
    if sold.rowcount == 0:
        raise SoldOut
    return None


def advance_order(db: sqlite3.Connection, chance: random.Random, now: dt.datetime, size: Size) -> None:
    waiting = _ids(db, "SELECT id FROM orders WHERE status IN ('placed', 'paid')")
    if len(waiting) < 12:
        return place_order(db, chance, now, size)
    return _advance(db, [chance.choice(waiting)])


def ship(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    packed = _ids(db, "SELECT id FROM orders WHERE status = 'packing'")
    _advance(db, chance.sample(packed, len(packed) // 4))


def deliver(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    shipped = _ids(db, "SELECT id FROM orders WHERE status = 'shipped'")
    _advance(db, chance.sample(shipped, len(shipped) // 3))


def cancel_order(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    """The goods go back to the shelf."""
    open_orders = _ids(db, "SELECT id FROM orders WHERE status IN ('placed', 'paid', 'packing')")
    for order in open_orders and [chance.choice(open_orders)]:
        product, quantity = _row(db, "SELECT product_id, quantity FROM orders WHERE id = ?", order)
        db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order,))
        db.execute("UPDATE products SET stock = stock + ? WHERE id = ?", (quantity, product))


def forget_cancelled(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    cancelled = _ids(db, "SELECT id FROM orders WHERE status = 'cancelled'")
    db.executemany("DELETE FROM orders WHERE id = ?", [(order,) for order in cancelled and [chance.choice(cancelled)]])


def change_prices(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    """One price, or a sale on a few."""
    products = chance.sample(_ids(db, "SELECT id FROM products"), chance.choice((1, 1, 1, 4)))
    factor = round(chance.uniform(0.8, 1.25), 2)
    db.executemany(
        "UPDATE products SET price = round(list_price * ?, 2) WHERE id = ?", [(factor, id) for id in products]
    )


def count_stock(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    """Someone looked at a shelf, and the books were wrong."""
    wrong = chance.choice((-2, -1, 1, 2))
    db.execute("UPDATE products SET stock = max(0, stock + ?) WHERE id = ?", (wrong, _popular_product(db, chance)))


def restock(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    """Empty shelves first, then what is low beyond what the shop puts up with."""
    low = _ids(db, LOW_STOCK)
    empty = _ids(db, "SELECT id FROM products WHERE stock = 0")
    needy = empty[:3] or chance.sample(low, min(3, max(0, len(low) - LOW_MIN)))
    db.executemany(
        "UPDATE products SET stock = stock + ? WHERE id = ?", [(chance.randrange(4, 24), id) for id in needy]
    )


def move_house(db: sqlite3.Connection, chance: random.Random, _now: dt.datetime, _size: Size) -> None:
    customer = chance.choice(_ids(db, "SELECT id FROM customers"))
    db.execute("UPDATE customers SET city = ? WHERE id = ?", (chance.choice(CITIES), customer))


def archive(db: sqlite3.Connection, _chance: random.Random, _now: dt.datetime, size: Size) -> None:
    """The oldest orders leave the books, those that are over first."""
    db.execute(
        "DELETE FROM orders WHERE id IN (SELECT id FROM orders "
        "ORDER BY status IN ('delivered', 'cancelled') DESC, id LIMIT ?)",
        (max(1, size.orders_max // 50),),
    )


Business = Callable[[sqlite3.Connection, random.Random, dt.datetime, Size], None]
BUSINESS: Sequence[tuple[int, Business]] = (
    (26, place_order),
    (48, advance_order),
    (7, ship),
    (5, deliver),
    (4, cancel_order),
    (3, forget_cancelled),
    (7, change_prices),
    (6, count_stock),
    (5, restock),
    (2, move_house),
)
LOW_MIN = 12  # the shop lives with so many products running low
LOW_STOCK = "SELECT id FROM products WHERE stock < reorder_at"


def _advance(db: sqlite3.Connection, orders: Sequence[int]) -> None:
    for order in orders:
        (status,) = _row(db, "SELECT status FROM orders WHERE id = ?", order)
        db.execute("UPDATE orders SET status = ? WHERE id = ?", (NEXT_STATUS[status], order))


def _popular_product(db: sqlite3.Connection, chance: random.Random) -> int:
    """What runs low does so because people want it."""
    low = _ids(db, LOW_STOCK)
    return chance.choice(low if low and chance.random() < 0.35 else _ids(db, "SELECT id FROM products"))


def _ids(db: sqlite3.Connection, select: str) -> list[int]:
    return [id for (id,) in db.execute(select + " ORDER BY id")]


def _row(db: sqlite3.Connection, select: str, *params: object) -> tuple[Any, ...]:
    row: tuple[Any, ...] = db.execute(select, params).fetchone()
    return row
