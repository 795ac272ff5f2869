"""Names in double quotes, as standard SQL quotes them."""

from __future__ import annotations


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_qualified(name: str) -> str:
    """A table of PostgreSQL, by its name as we follow it: `orders` of the schema public, or `sales.orders`."""
    schema, _, relation = name.rpartition(".")
    return f"{quote(schema or 'public')}.{quote(relation)}"
