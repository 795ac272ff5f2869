"""Names in reach of an expression: the columns of the one table, its rowid, aliases of the result, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Column, Table
from headwater.sql.expr import Expr
from headwater.sql.grammar import Span
from headwater.sql.names import did_you_mean, listed
from headwater.sql.params import Params
from headwater.sql.parse import span
from headwater.sql.types import NEUTRAL, ROWID_NAMES, Collating, column_ref, rowid_column


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression and the collation it would bring into a comparison; the expression itself holds no COLLATE."""

    expr: Expr
    collating: Collating = NEUTRAL


@dataclass(frozen=True, slots=True)
class Scope:
    """`name` is what columns may be qualified with: the alias, or the table's name where there is none."""

    sql: str
    table: Table
    name: str
    params: Params
    aliases: Mapping[str, Bound] = field(default_factory=dict)

    def error(self, message: str, at: Span | None, hint: str | None = None) -> SqlError:
        return SqlError(message, sql=self.sql, at=at, hint=hint)

    def refusal(self, message: str, at: Span | None, hint: str | None = None) -> UnsupportedQuery:
        return UnsupportedQuery(message, sql=self.sql, at=at, hint=hint)

    def resolve(self, node: exp.Column) -> Bound:
        """A column first, then the rowid, then an alias of the result: SQLite's order."""
        self._check_qualifier(node)
        name = node.name.lower()
        column = find(self.table.columns, name) or self._rowid(node, name)
        if column is not None:
            return bound_column(column)
        if name in self.aliases and not node.table:
            return self.aliases[name]
        raise self._unknown(node)

    def _check_qualifier(self, node: exp.Column) -> None:
        if node.db and node.db.lower() != "main":
            raise self.error(f"no such schema: {node.db}", span(node.args["db"]), "only main is known")
        if node.table and node.table.lower() != self.name.lower():
            raise self.error(
                f"no such table here: {node.table}", span(node.args["table"]), f"the table is known as {self.name}"
            )

    def _rowid(self, node: exp.Column, name: str) -> Column | None:
        if name not in ROWID_NAMES:
            return None
        column = rowid_column(self.table)
        if column is None:
            raise self.refusal(
                f"{node.name} is not a column of {self.table.name}, and SQLite may renumber it",
                span(node),
                "declare an INTEGER PRIMARY KEY, or select the key",
            )
        return column

    def _unknown(self, node: exp.Column) -> SqlError:
        at = span(node.this)
        if at and self.sql[at[0]] == '"':
            return self.error(
                f"no such column: {node.name}",
                at,
                f"for text use single quotes: '{node.name}'; names go in double quotes",
            )
        known = (*self.table.names, *self.aliases)
        hint = did_you_mean(node.name, known, f"{self.table.name} has {listed(known)}" if known else None)
        return self.error(f"no such column: {node.name}", at, hint)


def bound_column(column: Column) -> Bound:
    ref = column_ref(column)
    return Bound(ref, Collating(ref.collation))


def find(columns: Iterable[Column], name: str) -> Column | None:
    return next((column for column in columns if column.name.lower() == name.lower()), None)
