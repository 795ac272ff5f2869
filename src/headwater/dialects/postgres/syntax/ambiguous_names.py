"""Refuses names that only PostgreSQL tells apart: those that differ in the case of their letters alone."""

from __future__ import annotations

from sqlglot import exp

from headwater.model.errors import UnsupportedQuery


def refuse_alike(tree: exp.Expr, sql: str, columns: tuple[str, ...] = ()) -> None:
    """To PostgreSQL they are different names; the binder does not tell them apart."""
    seen = {column.lower(): column for column in columns}
    for name in tree.find_all(exp.Identifier):
        if isinstance(name.parent, exp.Collate):
            continue
        known = seen.setdefault(name.name.lower(), name.name)
        if known != name.name:
            raise UnsupportedQuery(
                f"the names {known} and {name.name} differ only in the case of their letters", sql=sql
            )
