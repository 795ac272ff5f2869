"""The door of the log: of tables that are held by key, only changes of rows that are asked for pass it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from headwater.model.change import Change, Transaction
from headwater.model.columnar_changes import TransactionSlice
from headwater.model.schema import Table
from headwater.pipeline.by_key.held_keys import HeldKeys


def let_through(
    held: HeldKeys, by_key: Container[str], transaction: Transaction, tables: Mapping[str, Table]
) -> Transaction:
    """What of a transaction is logged. What comes as columns is of other tables: the source looks at rows that are held
    by key one by one."""
    if not by_key or isinstance(transaction.changes, TransactionSlice):
        return transaction
    if not any(change.table in by_key for change in transaction.changes):
        return transaction
    passed = (_passed(held, by_key, change, tables) for change in transaction.changes)
    return replace(transaction, changes=tuple(change for change in passed if change is not None))


def _passed(held: HeldKeys, by_key: Container[str], change: Change, tables: Mapping[str, Table]) -> Change | None:
    return held.let_through(tables[change.table], change) if change.table in by_key else change
