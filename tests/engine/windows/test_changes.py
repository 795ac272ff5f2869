"""Pairing of removals and additions into changes of rows, with and without a key (law 4)."""

from __future__ import annotations

import random

import pytest

from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.delta import Delta, merge
from headwater.engine.windows.changes import Changes, changes_of
from headwater.engine.windows.row_identity import Multiset, ordinal_hash
from headwater.model.change import Change, Transaction
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from tests.engine.world import FUZZ, KEYS, Origin, delta_of, table_of

KEYED = Table("t", (Column("id", Type.INTEGER, "INTEGER"), Column("v", Type.TEXT, "TEXT", "NOCASE")), ("id",))
BAG = Table("t", KEYED.columns)


def changed(
    table: Table, changes: list[Change], multiset: Multiset | None = None
) -> list[tuple[Row | None, Row | None]]:
    return shown(changes_of(TableSchema.of(table), delta_of(table, [(1, Transaction(0, tuple(changes)))]), multiset))


def shown(changes: Changes) -> list[tuple[Row | None, Row | None]]:
    rows = [tuple(row.values()) for row in changes.rows.to_pylist()]
    sides = zip(changes.old.tolist(), changes.new.tolist(), strict=True)
    pairs = [(rows[old] if old >= 0 else None, rows[new] if new >= 0 else None) for old, new in sides]
    return sorted(pairs, key=repr)


def test_an_update_is_one_change() -> None:
    assert changed(KEYED, [Change("t", (1, "a"), (1, "b"))]) == [((1, "a"), (1, "b"))]


def test_a_new_key_is_one_change() -> None:
    assert changed(KEYED, [Change("t", (1, "a"), (2, "a"))]) == [((1, "a"), (2, "a"))]


def test_two_rows_that_exchange_their_keys_are_two_changes() -> None:
    swap = [Change("t", (1, "a"), (2, "a")), Change("t", (2, "b"), (1, "b"))]
    assert changed(KEYED, swap) == [((1, "a"), (2, "a")), ((2, "b"), (1, "b"))]


def test_a_row_that_takes_the_key_of_one_deleted_is_the_one_that_changed() -> None:
    takes = [Change("t", (2, "b"), None), Change("t", (1, "a"), (2, "a"))]
    assert changed(KEYED, takes) == [((1, "a"), (2, "a")), ((2, "b"), None)]


def test_a_row_inserted_under_a_key_just_left_is_new() -> None:
    leaves = [Change("t", (1, "a"), (2, "a")), Change("t", None, (1, "c"))]
    assert changed(KEYED, leaves) == [((1, "a"), (2, "a")), (None, (1, "c"))]


def test_equal_rows_without_a_key_are_told_apart_by_ordinals() -> None:
    multiset = Multiset()
    insert = Change("t", None, (1, "a"))
    changes = changes_of(TableSchema.of(BAG), delta_of(BAG, [(1, Transaction(0, (insert, insert)))]), multiset)
    (row_hash,) = multiset.tally.all().key.tolist()
    assert sorted(changes.id.tolist()) == sorted(ordinal_hash(row_hash, n) for n in (0, 1))
    delete = Change("t", (1, "a"), None)
    left = changes_of(TableSchema.of(BAG), delta_of(BAG, [(2, Transaction(0, (delete,)))]), multiset)
    assert left.id.tolist() == [ordinal_hash(row_hash, 1)]


def test_a_row_without_a_key_that_changes_is_one_change() -> None:
    multiset = Multiset()
    changed(BAG, [Change("t", None, (1, "a"))], multiset)
    assert changed(BAG, [Change("t", (1, "a"), (2, "b"))], multiset) == [((1, "a"), (2, "b"))]
    assert changed(BAG, [Change("t", (2, "b"), (2, "B"))], multiset) == [((2, "b"), (2, "B"))]


def test_what_cancels_within_a_transaction_is_nothing() -> None:
    multiset = Multiset()
    assert changed(BAG, [Change("t", None, (1, "a")), Change("t", (1, "a"), None)], multiset) == []
    assert not multiset.tally.runs


def test_sections_that_overlap_in_time_are_merged_by_transaction() -> None:
    one = delta_of(
        KEYED,
        [(1, Transaction(0, (Change("t", None, (1, "a")),))), (3, Transaction(0, (Change("t", None, (3, "c")),)))],
    )
    two = delta_of(KEYED, [(2, Transaction(0, (Change("t", None, (2, "b")),)))])
    assert merge([one, two]).batch.column("tx").to_pylist() == [1, 2, 3]
    assert merge([one]) is one
    assert merge([one, Delta(two.batch)]).renames is None


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(5 * FUZZ))
def test_identities_are_always_those_of_the_rows_there_are(key: tuple[str, ...], seed: int) -> None:
    """Following the changes by identity alone ends with the origin's rows."""
    table = table_of(key)
    origin, multiset = Origin(table, random.Random(seed)), None if key else Multiset()
    held: dict[int, str] = {}
    for tx in range(40):
        changes = changes_of(TableSchema.of(table), delta_of(table, [(tx, origin.transaction())]), multiset)
        rows = [repr(tuple(row.values())) for row in changes.rows.to_pylist()]
        for old in changes.old[changes.old >= 0].tolist():
            assert held.pop(int(changes.id[old])) == rows[old]
        for new in changes.new[changes.new >= 0].tolist():
            assert held.setdefault(int(changes.id[new]), rows[new]) == rows[new]
        assert sorted(held.values()) == sorted(repr(tuple(row.values())) for row in origin.batch().to_pylist())
