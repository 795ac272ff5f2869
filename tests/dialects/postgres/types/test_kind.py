"""Kinds: the text of each stays what it is, for names of relations on disk are made of it."""

from __future__ import annotations

import pytest

from headwater.dialects.postgres.types.kind import DEFAULT, INT4, TEXT, PostgresKind, element_of, is_array
from headwater.dialects.postgres.types.kinds import kind_of_column
from headwater.model.schema import Column
from headwater.model.value import Type

COLUMNS = {
    "int4": Column("c", Type.INTEGER, "integer"),
    "numeric": Column("c", Type.NUMERIC, "numeric"),
    "numeric 2": Column("c", Type.NUMERIC, "numeric(9,2)"),
    "numeric 0": Column("c", Type.NUMERIC, "numeric(9,-2)"),
    "text": Column("c", Type.TEXT, "text", "C"),
    "text collate en_US": Column("c", Type.TEXT, "character varying(9)", "en_US"),
    "bpchar 5 text collate default": Column("c", Type.TEXT, "character(5)", "default"),
    "array int4": Column("c", Type.OTHER, "integer[]"),
    "array text collate default": Column("c", Type.OTHER, "text[]", "default"),
    "enum mood": Column("c", Type.TEXT, "mood"),
    "timestamp": Column("c", Type.TIMESTAMP, "timestamp(3) without time zone"),
    "other point": Column("c", Type.OTHER, "point"),
    "other text": Column("c", Type.TEXT, "text", "nondeterministic"),
}


@pytest.mark.parametrize(("text", "column"), COLUMNS.items())
def test_the_kind_of_a_column_has_one_text(text: str, column: Column) -> None:
    assert str(kind_of_column(column)) == text


def test_a_message_names_a_kind_as_it_was_declared() -> None:
    assert [kind_of_column(COLUMNS[text]).title for text in ("numeric 2", "enum mood", "other point", "text")] == [
        "numeric",
        "mood",
        "point",
        "text",
    ]


def test_kinds_are_equal_by_all_that_they_say() -> None:
    assert PostgresKind("text", collation="default") == DEFAULT != TEXT
    assert len({kind_of_column(column) for column in COLUMNS.values()}) == len(COLUMNS)


def test_an_array_has_the_kind_of_its_elements() -> None:
    array = PostgresKind("array", element=INT4)
    assert is_array(array) and element_of(array) == INT4
    assert not is_array(PostgresKind("array")) and element_of(TEXT) == TEXT
