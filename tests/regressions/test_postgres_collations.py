"""Texts made of texts on PostgreSQL keep their collation: only the server knows the order of most of them."""

from __future__ import annotations

import pytest

from headwater.dialects.bind import bind
from headwater.model.encoding.keys import encode_value
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sources.postgres.catalog.tables import PostgresColumn, column_of

_TABLE = Table(
    "v",
    (
        Column("id", Type.INTEGER, "integer"),
        Column("t", Type.TEXT, "text", "en_US.utf8"),
        Column("c", Type.TEXT, "text", "C"),
    ),
    ("id",),
    dialect="postgres",
)


@pytest.mark.parametrize("made", ["t || 'x'", "substr(t, 1, 2)", "replace(t, 'a', c)", "id::text", "concat('x', id)"])
def test_what_is_made_of_a_text_is_not_ordered_by_its_bytes(made: str) -> None:
    """`ORDER BY t || 'x'` was followed by bytes, under a collation that orders by the rules of a language."""
    for sql in (
        f"SELECT id FROM v ORDER BY {made}",
        f"SELECT id FROM v WHERE {made} < 'm'",
        f"SELECT max({made}) FROM v",
    ):
        with pytest.raises(UnsupportedQuery, match="collat"):
            bind(sql, [_TABLE])
    bind(f"SELECT id FROM v WHERE {made} = 'm'", [_TABLE])


@pytest.mark.parametrize("made", ["c || 'x'", "c || id", "substr(c, 1, 2)", "'x' || c", '(t || c) COLLATE "C"'])
def test_by_bytes_it_is_where_all_of_it_is_of_the_collation_c(made: str) -> None:
    bind(f"SELECT max({made}) AS m FROM v GROUP BY id ORDER BY 1", [_TABLE])


def test_rows_of_a_set_are_not_told_apart_by_an_order_that_only_the_server_knows() -> None:
    """The template's text, `ORDER BY 2, 1`, could not be bound again: to subscribe was an error."""
    with pytest.raises(UnsupportedQuery, match="only the source knows"):
        bind("SELECT DISTINCT t, c FROM v ORDER BY c", [_TABLE])
    bind("SELECT DISTINCT t, c FROM v", [_TABLE])


def test_a_collation_called_as_one_of_sqlites_does_not_fold() -> None:
    """Rows that are arranged by such a column were found under another's value: 'a' and 'A' were one key."""
    field = PostgresColumn("t", 25, Type.TEXT, "text", True, False, None, False, False, "NOCASE")
    column = column_of(field)
    assert encode_value("a", collation=column.collation) != encode_value("A", collation=column.collation)
