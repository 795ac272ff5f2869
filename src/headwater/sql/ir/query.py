"""A bound query: what the user asked, with names resolved, types known and parameters in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.value import Value
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.relation import Relation
from headwater.sql.syntax.canonical_text import Syntax


@dataclass(frozen=True, slots=True)
class Query:
    """All expressions are over the columns of `relation`. `syntax` is the query as it is written canonically.

    `where` holds the top-level conjuncts that the plan may lift; the others are filters inside the relation.

    `order` is total where the result is ordered or framed: first the keys that the user wrote, `user_keys` of them,
    then what tells rows apart. Constants are left out.

    `framed`: LIMIT or OFFSET was written, even one that lets every row pass.

    `empty`, of a scalar aggregate: all of `where` must be lifted, and where the relation has no row for that, its
    columns besides those asked for have these values.
    """

    sql: str
    outputs: tuple[Output, ...]
    relation: Relation
    syntax: Syntax = field(compare=False, repr=False)
    where: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    user_keys: int = 0
    framed: bool = False
    limit: int | None = None
    offset: int = 0
    empty: tuple[tuple[str, Value], ...] | None = None
