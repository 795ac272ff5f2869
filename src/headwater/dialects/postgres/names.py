"""PostgreSQL's names: which table or result they mean, and how results without one are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.postgres.syntax.ambiguous_names import refuse_alike
from headwater.dialects.postgres.types.kinds import SPELLINGS
from headwater.model.schema import Column, Table
from headwater.sql.ir.expr import Expr


@dataclass(frozen=True, slots=True)
class PostgresNames:
    """A `DialectNames`."""

    def table(self, tables: Mapping[str, Table], node: exp.Table, sql: str) -> Table | None:
        schema = node.db or "public"
        name = node.name if schema == "public" else f"{schema}.{node.name}"
        found = tables.get(name.lower())
        if found is None or found.name != name:
            return None
        root = node.root()
        refuse_alike(root, "", found.names)
        node.set("db", exp.to_identifier(schema, quoted=True))
        return found

    def result(self, node: exp.Expr, expr: Expr) -> str:
        return _result_name(node) or "?column?"

    def sees_alias(self, node: exp.Column) -> bool:
        """Only where the name stands alone in GROUP BY or ORDER BY."""
        return isinstance(node.parent, exp.Group | exp.Ordered)

    def sorts_by_result(self, item: exp.Expr) -> str | None:
        return item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column) else None

    def rowid(self, table: Table) -> Column | None:
        return None

    def is_rowid(self, name: str) -> bool:
        return False


def _result_name(node: exp.Expr) -> str | None:
    """As PostgreSQL names a column that nobody named."""
    match node:
        case exp.Column() | exp.Anonymous():
            return str(node.name)
        case exp.Cast():
            return _result_name(node.this) or _type_name(node.args["to"].name)
        case exp.Collate():
            return _result_name(node.this)
        case exp.AtTimeZone():
            return "timezone"
        case exp.Case():
            default = node.args.get("default")
            return (_result_name(default) if isinstance(default, exp.Column) else None) or "case"
        case exp.Boolean():
            return "bool"
        case exp.Exists():
            return "exists"
        case exp.Subquery() if isinstance(node.this, exp.Select):
            item = node.this.expressions[0]
            return item.alias or _result_name(item)
        case _:
            return None


def _type_name(written: str) -> str:
    kind = SPELLINGS.get(written)
    return written if kind is None else kind.base


POSTGRES_NAMES = PostgresNames()
