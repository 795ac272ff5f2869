"""A bound expression as SQLite's SQL: same value, same type, same collation as what the user wrote.

For the exact evaluation of expressions and for canonical text.
"""

from __future__ import annotations

from headwater.dialects.sqlite import literals
from headwater.sql.ir.expr import ColumnRef, Expr, OrderKey, Output
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.identifier import quote

SQLITE_TEXT = ExprText(literals.write)


def render(expr: Expr) -> str:
    return SQLITE_TEXT.text(expr)


def render_operand(expr: Expr) -> str:
    """In parentheses where another operator may stand beside it."""
    return SQLITE_TEXT.operand(expr)


def render_output(output: Output) -> str:
    return SQLITE_TEXT.output(output)


def render_key(key: OrderKey, table: str) -> str:
    """A bare column is qualified, or SQLite would take an alias of the result for it."""
    inner = SQLITE_TEXT.fragment(key.expr)
    text = f"{quote(table)}.{inner.text}" if isinstance(key.expr, ColumnRef) else inner.operand
    if (inner.collating.name or "BINARY") != key.collation:
        text += f" COLLATE {key.collation}"
    if key.descending:
        text += " DESC"
    if key.nulls_first == key.descending:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text
