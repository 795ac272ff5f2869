"""A syntax tree as SQLite's SQL that reads back as the same tree. Never resolves a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp

from headwater.sql.ir.identifier import quote
from headwater.sql.syntax.writer import Writer


class SqliteWriter(Writer):
    _signs: ClassVar[Mapping[type[exp.Expr], str]] = {
        **Writer._signs,
        exp.BitwiseAnd: "&",
        exp.BitwiseOr: "|",
        exp.BitwiseLeftShift: "<<",
        exp.BitwiseRightShift: ">>",
        exp.Glob: "GLOB",
    }
    _prefixes: ClassVar[Mapping[type[exp.Expr], str]] = {**Writer._prefixes, exp.BitwiseNot: "~"}

    def _hexstring(self, node: exp.HexString) -> str:
        return f"x'{node.name}'"

    def _collate(self, node: exp.Collate) -> str:
        return f"{self.operand(node.this)} COLLATE {node.expression.name.upper()}"

    def _cast(self, node: exp.Cast) -> str:
        return f"CAST({self.write(node.this)} AS {quote(node.args['to'].name)})"

    def _table(self, node: exp.Table) -> str:
        """There is one schema."""
        return f"{quote(node.name)} AS {quote(node.alias)}" if node.alias not in ("", node.name) else quote(node.name)

    def _nulls(self, node: exp.Ordered) -> str:
        """Only where they do not stand as the smallest values."""
        as_smallest = bool(node.args.get("nulls_first")) is not bool(node.args.get("desc"))
        return "" if as_smallest else super()._nulls(node)
