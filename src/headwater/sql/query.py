"""A bound query: what the user asked, with names resolved, types known and parameters in place."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sql.expr import Expr, OrderKey, Output


@dataclass(frozen=True, slots=True)
class Query:
    """`where` holds the top-level conjuncts as written. `order` holds the user's keys alone, constants left out.

    `framed`: LIMIT or OFFSET was written, even one that lets every row pass.
    """

    sql: str
    table: str
    outputs: tuple[Output, ...]
    where: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    framed: bool = False
    limit: int | None = None
    offset: int = 0
