"""Which changes concern a query that the source is asked again: those of rows with the values that it asks for.

`SELECT id, rank() OVER (ORDER BY v) FROM t WHERE s = ?` reads of `t` only the rows where `s` equals the value. So a
changed row that has another value there, before and after, leaves the answer as it is. That holds of a table T where

1. T is read once in the whole query: by no subquery, no WITH, no view, no function, and no second time in FROM;
2. it is a table of the outermost FROM, of a query that is one SELECT;
3. `T.c = constant` is a conjunct of the outermost WHERE, or `T.c IN (constants)`.

Proof. Every row of the join carries a row of T, or NULLs in its place. (a) The rows that carry a given row r of T
depend on r and on the other tables alone, whatever the joins: T itself has the one row r; and if a join has T on one
side, those of its rows that carry r are made of the rows of that side that carry r, each matched with the other side or
left unmatched, and the other side does not depend on T, but for what LATERAL takes of r itself. The rows of the other
side that stay unmatched carry NULLs for T. (b) Of rows that carry NULLs, the conjunct is not true; of those that carry
r, it is true only where r.c equals a constant. So what WHERE lets pass depends on the rows of T with these values only,
and all that comes after WHERE (groups, windows, DISTINCT, order, limit) depends on what WHERE let pass and on other
tables.

What is not covered: an error. Databases evaluate conjuncts in an order of their own, so a row with another value may
make a query fail that did not fail before; such a query fails when it is asked the next time.

The tokens find the conjunct; the database says which tables are read, through what, and of which types. Where it is not
certain that equal values have equal keys (`DialectRequery.asked_key`), every change of the table concerns the query. A
query may ask for values of several tables; a change of a table without any concerns it always. It never asks.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Column, Table
from headwater.model.value import Value
from headwater.sql.contracts.requery import DialectRequery
from headwater.sql.outline.asked_values import AskedValues, Constant, asked_values
from headwater.sql.outline.tokens import Named, NoOutline
from headwater.sql.syntax.parameters import Given

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskedColumn:
    """Of a template: the column of a table that each of its instances asks for values of."""

    table: str
    column: Column
    constants: tuple[Constant, ...]
    dialect: str

    def __str__(self) -> str:
        """As the query says it, in short."""
        told = [_told(one) for one in self.constants]
        return f"{self.column.name} = {told[0]}" if len(told) == 1 else f"{self.column.name} IN ({', '.join(told)})"

    def keys(self, params: Given) -> AskedKeys | None:
        """Those that an instance asks for; none where equality is not certain. NULL equals nothing."""
        rules = DIALECTS[self.dialect].requery
        try:
            values = [_value(one, params) for one in self.constants]
        except (LookupError, TypeError):
            return None  # the database takes them in a way that we do not know
        keys = [rules.asked_key(self.column, value) for value in values if value is not None]
        return None if None in keys else AskedKeys(compared_as(self.column), frozenset(keys))


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """Of an instance: changes of a table concern it where the column has one of these keys, before or after. They are
    those of a column of this name, type and collation."""

    column: tuple[str, str, str]
    keys: frozenset[Hashable]


def compared_as(column: Column) -> tuple[str, str, str]:
    """Its name, and what its equality depends on."""
    return column.name, column.declared, column.collation


def _told(constant: Constant) -> str:
    match constant.parameter:
        case None:
            return repr(constant.value)
        case int(place):
            return f":p{place + 1}"
        case name:
            return f":{name}"


def _value(constant: Constant, params: Given) -> Value:
    if constant.parameter is None:
        return constant.value
    given: Value = params[constant.parameter]  # type: ignore[index]
    return given


def asked_columns(
    sql: str, tables: Mapping[str, Table], dialect: str, once: frozenset[str] | None
) -> tuple[AskedColumn, ...]:
    """Of a query without views and functions of users, which reads these tables: one per table at most. `once` are the
    tables that the database finds in it a single time, where it can tell."""
    try:
        found = asked_values(sql, DIALECTS[dialect])
    except NoOutline:
        return ()
    rules = DIALECTS[dialect].requery
    known = dict[str, AskedColumn]()
    for named, constants in found.equal:
        for table, column in _meant(named, found, tables, rules):
            if _is_read_once(table.name, found, once) and _once_each(constants, found):
                known.setdefault(table.name, AskedColumn(table.name, column, constants, dialect))
    return tuple(known.values())


def _meant(
    named: Named, found: AskedValues, tables: Mapping[str, Table], rules: DialectRequery
) -> Iterator[tuple[Table, Column]]:
    """The table and column that a name means. A database that took the query knows of no second one, but where FROM
    has columns that belong to two tables."""
    if found.merges and not named.qualifier:
        return
    for item in found.tables:
        table = rules.table(item, tables)
        if table is None or not (named.qualifier == "" or rules.same_name(named.qualifier, item.label)):
            continue
        columns = [column for column in table.columns if rules.same_name(column.name, named.name)]
        if len(columns) == 1:
            yield table, columns[0]


def _is_read_once(table: str, found: AskedValues, once: frozenset[str] | None) -> bool:
    """Its name stands once in the text, and the database agrees, where it says."""
    if not _PLAIN_NAME.fullmatch(table) or found.said[table.rpartition(".")[2].lower()] != 1:
        return False
    return once is None or table in once


def _once_each(constants: Sequence[Constant], found: AskedValues) -> bool:
    """A parameter that stands elsewhere too may get its type there."""
    return all(one.parameter is None or found.parameters[one.parameter] == 1 for one in constants)


def asked_keys(columns: Sequence[AskedColumn], params: Given) -> Mapping[str, AskedKeys]:
    """By table: what an instance asks for."""
    found = {one.table: one.keys(params) for one in columns}
    return {table: keys for table, keys in found.items() if keys is not None}
