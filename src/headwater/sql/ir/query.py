"""A bound query: what the user asked, with names resolved, types known and parameters in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.value import Value
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.relation import Relation
from headwater.sql.syntax.canonical_text import Syntax


@dataclass(frozen=True, slots=True)
class Query:
    """`where` holds the top-level conjuncts as written. `order` holds the user's keys alone, constants left out.

    `framed`: LIMIT or OFFSET was written, even one that lets every row pass.

    With a `relation` all expressions are over its columns, and there is no `table`. Then `where` holds only what the
    plan may lift, `order` is total already, and `syntax` is the query as it is written canonically.

    `empty`, of a scalar aggregate: all of `where` must be lifted, and where the relation has no row for that, its
    columns besides those asked for have these values.
    """

    sql: str
    table: str
    outputs: tuple[Output, ...]
    where: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    framed: bool = False
    limit: int | None = None
    offset: int = 0
    relation: Relation | None = None
    empty: tuple[tuple[str, Value], ...] | None = None
    syntax: Syntax | None = field(default=None, compare=False, repr=False)
