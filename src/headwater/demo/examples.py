"""The demo's example queries: what its page offers to watch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    title: str
    sql: str


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Latest orders",
        "SELECT id, item, quantity, total, status, city, placed_at\nFROM orders\nORDER BY placed_at DESC\nLIMIT 15",
    ),
    Example(
        "Running low",
        "SELECT name, stock, reorder_at - stock AS short,\n"
        "       price, round(price * stock, 2) AS shelf_value\n"
        "FROM products\nWHERE stock < reorder_at\nORDER BY reorder_at - stock DESC, name\nLIMIT 20",
    ),
    Example(
        "On the packing bench",
        "SELECT id, item, quantity, total,\n"
        "       CASE WHEN total >= 200 THEN 'by hand'\n"
        "            WHEN total >= 80 THEN 'padded'\n"
        "            ELSE 'plain' END AS parcel\n"
        "FROM orders\nWHERE status = 'packing'\nORDER BY total DESC",
    ),
    Example(
        "Sales by city",
        "SELECT c.city, count(*) AS orders, sum(o.quantity) AS pieces,\n"
        "       max(o.placed_at) AS latest\n"
        "FROM customers c JOIN orders o ON o.customer_id = c.id\n"
        "GROUP BY c.city\nORDER BY pieces DESC\nLIMIT 12",
    ),
    Example(
        "Wanted now",
        "SELECT p.name, p.stock, count(o.id) AS open_orders, coalesce(sum(o.quantity), 0) AS wanted\n"
        "FROM products p LEFT JOIN orders o\n"
        "  ON o.product_id = p.id AND o.status IN ('placed', 'paid', 'packing')\n"
        "GROUP BY p.id\nORDER BY wanted DESC, p.name\nLIMIT 15",
    ),
)
