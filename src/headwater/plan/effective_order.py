"""The effective order: the user's keys, then what tells rows apart, so that ties never differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.dialects.registry import DIALECTS
from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.bind.scope import column_ref
from headwater.sql.ir.collation import COLLATIONS
from headwater.sql.ir.expr import Call, ColumnRef, OrderKey


def effective_order(keys: Iterable[OrderKey], table: Table, framed: bool) -> tuple[OrderKey, ...]:
    """Empty where the result is neither ordered nor framed."""
    user = distinct_keys(keys)
    return distinct_keys((*user, *_identity(table))) if user or framed else ()


def distinct_keys(keys: Iterable[OrderKey]) -> tuple[OrderKey, ...]:
    """A key that repeats an earlier one decides nothing, whatever its direction."""
    seen: dict[tuple[object, str], OrderKey] = {}
    for key in keys:
        seen.setdefault((key.expr, key.collation), key)
    return tuple(seen.values())


def _identity(table: Table) -> Iterator[OrderKey]:
    dialect = DIALECTS[table.dialect]
    columns = [column_ref(dialect, table.column(name)) for name in table.identity]
    for column in columns:
        if column.collation not in COLLATIONS:
            raise UnsupportedQuery(
                f"the column {column.name} is collated {column.collation}, which is not supported yet",
                hint="leave out ORDER BY and LIMIT",
            )
        yield OrderKey(column, collation=column.collation)
    if not table.key:
        yield from _finer(columns)


def _finer(columns: Iterable[ColumnRef]) -> Iterator[OrderKey]:
    """Without a key two rows may be equal by their collations, or as 1 and 1.0 are, and yet differ."""
    for column in columns:
        if column.collation != "BINARY":
            yield OrderKey(column)
        if column.type is Type.ANY:
            yield OrderKey(Call("typeof", (column,), Type.TEXT))
