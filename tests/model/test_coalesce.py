"""Coalescing keeps the net effect of a transaction and says it once a row (laws 2, 4 and 5 at the source's edge)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce, same
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from tests.support.fuzz import tries

KEYED = Table("t", (Column("id", Type.INTEGER), Column("v", Type.TEXT)), key=("id",))
BAG = Table("t", (Column("id", Type.INTEGER), Column("v", Type.TEXT)))
VALUES = st.sampled_from(["a", "b", "c"])


def net(table: Table, *changes: tuple[Row | None, Row | None]) -> list[tuple[Row | None, Row | None]]:
    transaction = Transaction(1, tuple(Change("t", old, new) for old, new in changes))
    return [(change.old, change.new) for change in coalesce(transaction, {"t": table}).changes]


def test_insert_then_update_is_an_insert_with_the_last_values() -> None:
    assert net(KEYED, (None, (1, "a")), ((1, "a"), (1, "b"))) == [(None, (1, "b"))]


def test_delete_then_insert_of_the_same_key_is_an_update() -> None:
    assert net(KEYED, ((1, "a"), None), (None, (1, "b"))) == [((1, "a"), (1, "b"))]


def test_insert_then_delete_is_nothing() -> None:
    assert net(KEYED, (None, (1, "a")), ((1, "a"), None)) == []
    assert net(BAG, (None, (1, "a")), ((1, "a"), None)) == []


def test_a_moved_key_is_one_update() -> None:
    assert net(KEYED, ((1, "a"), (2, "a")), ((2, "a"), (3, "b"))) == [((1, "a"), (3, "b"))]


def test_swapped_keys_are_two_updates_in_place() -> None:
    changes = net(KEYED, ((1, "a"), (9, "a")), ((2, "b"), (1, "b")), ((9, "a"), (2, "a")))
    assert changes == [((1, "a"), (1, "b")), ((2, "b"), (2, "a"))]


def test_an_update_to_the_same_values_is_nothing_but_a_new_storage_class_is_something() -> None:
    assert net(KEYED, ((1, "a"), (1, "a"))) == []
    assert net(KEYED, ((1, "a"), (1.0, "a"))) == [((1, "a"), (1.0, "a"))]
    assert not same((0.0,), (-0.0,))


def test_a_row_of_a_key_less_table_that_changed_and_changed_back_is_nothing() -> None:
    assert net(BAG, ((1, "a"), (1, "b")), ((1, "b"), (1, "a"))) == []


def test_rows_of_a_key_less_table_that_traded_values_are_nothing() -> None:
    assert net(BAG, ((1, "a"), (1, "b")), ((1, "b"), (1, "a")), ((1, "x"), (1, "y"))) == [((1, "x"), (1, "y"))]


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, str], list[Change]]:
    """Rows before a transaction and a valid run of changes to them."""
    rows = draw(st.dictionaries(st.integers(0, 4), VALUES, max_size=4))
    now, changes = dict(rows), []
    for _ in range(draw(st.integers(0, 12))):
        free = [key for key in range(6) if key not in now]
        kind = draw(st.sampled_from(["insert", "update", "move", "delete"]))
        if kind == "insert" and free:
            key, value = draw(st.sampled_from(free)), draw(VALUES)
            changes.append(Change("t", None, (key, value)))
            now[key] = value
        elif kind != "insert" and now:
            key = draw(st.sampled_from(sorted(now)))
            old, target = now.pop(key), draw(st.sampled_from([*free, key])) if kind == "move" else key
            new = (target, draw(VALUES)) if kind != "delete" else None
            changes.append(Change("t", (key, old), new))
            if new is not None:
                now[new[0]] = new[1]
    return rows, changes


@tries(400)
@given(histories())
def test_net_changes_lead_to_the_same_rows(history: tuple[dict[int, str], list[Change]]) -> None:
    before, changes = history
    after: Counter[Row] = Counter(before.items())
    for change in changes:
        after.subtract([change.old] if change.old else [])
        after.update([change.new] if change.new else [])
    for table in (KEYED, BAG):
        reduced = coalesce(Transaction(1, tuple(changes)), {"t": table}).changes
        rows: Counter[Row] = Counter(before.items())
        rows.subtract([change.old for change in reduced if change.old])
        assert all(count >= 0 for count in rows.values())
        rows.update([change.new for change in reduced if change.new])
        assert +rows == +after
        assert not any(same(change.old, change.new) for change in reduced)
        assert_once(tuple(reduced), table)


def assert_once(changes: tuple[Change, ...], table: Table) -> None:
    """No row is told twice: no key (or, with no key, no row) is on the old side twice, nor on both sides of two."""
    width = 1 if table.key else 2
    olds = [change.old[:width] for change in changes if change.old]
    news = [change.new[:width] for change in changes if change.new]
    if table.key:
        assert len(set(olds)) == len(olds) and len(set(news)) == len(news)
    for change in changes:
        if change.old and change.new and change.old[:width] != change.new[:width]:
            assert change.new[:width] not in olds and change.old[:width] not in news
