"""A SELECT on one table as SQLite's text, from what was bound: queries that differ only in looks have one text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.dialects.sqlite.render import render_key, render_operand, render_output
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.identifier import quote
from headwater.sql.ir.predicate import Op


class SqliteSelectWriter:
    """A `SelectWriter`."""

    def condition(self, expr: Expr) -> str:
        return render_operand(expr)

    def comparison(self, column: str, op: Op, text: str) -> str:
        return f"{quote(column)} IN ({text})" if op == "in" else f"{quote(column)} {op} {text}"

    def key(self, key: OrderKey, table: str) -> str:
        return render_key(key, table)

    def select(
        self, table: str, outputs: Iterable[Output], where: Sequence[str], order: Sequence[OrderKey], frame: str
    ) -> str:
        clauses = (
            f"SELECT {', '.join(render_output(output) for output in outputs)} FROM {quote(table)}",
            f"WHERE {' AND '.join(where)}" if where else "",
            f"ORDER BY {', '.join(self.key(key, table) for key in order)}" if order else "",
            frame,
        )
        return " ".join(clause for clause in clauses if clause)
