"""SQLite's names: which table or result they mean, and how results without one are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.sqlite.affinity import ROWID_NAMES, rowid_column
from headwater.model.errors import SqlError
from headwater.model.schema import Column, Table
from headwater.sql.ir.expr import ColumnRef, Expr
from headwater.sql.syntax.span import span


@dataclass(frozen=True, slots=True)
class SqliteNames:
    """A `DialectNames`."""

    def table(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        if node.db and node.db.lower() != "main":
            raise SqlError(f"no such schema: {node.db}", sql=sql, at=span(node.args["db"]), hint="only main is known")
        found = tables.get(node.name.lower())
        if found is not None:
            node.set("db", None)
            node.set("this", exp.to_identifier(found.name, quoted=True))
        return found

    def result(self, node: exp.Expr, expr: Expr) -> str:
        """A column's own name, else the text as written. What USING coalesced is no column, whatever it looks like."""
        is_column = isinstance(node, exp.Column) and isinstance(expr, ColumnRef)
        return node.name if is_column else str(node.meta.get("text"))

    def sees_alias(self, node: exp.Column) -> bool:
        return True

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        """Only names that the user gave with AS."""
        return item.alias if isinstance(item, exp.Alias) and "added" not in item.meta else None

    def rowid(self, table: Table) -> Column | None:
        return rowid_column(table)

    def is_rowid(self, name: str) -> bool:
        return name in ROWID_NAMES


SQLITE_NAMES = SqliteNames()
