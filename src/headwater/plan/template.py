"""Template and Instance: a query with its liftable constants taken out, and one set of such constants.

Two queries that differ only in lifted constants share a template; a subscription is an instance of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.value import Row, Value
from headwater.sql.expr import Expr, OrderKey, Output
from headwater.sql.relation import Relation, tables_of


@dataclass(frozen=True, slots=True)
class Template:
    """One-table SELECT: `table` rows where each of `keys` equals the instance's value and `where` holds.

    `sql` is the canonical text with lifted constants as `:p1, :p2, …`; binding it again gives an equal template.
    `order` is the effective order: the user's keys, then the identity columns; empty where the result is unordered.
    A template is `framed` when it has LIMIT or OFFSET; their numbers belong to the instance.

    With a `relation` the template is over its columns, and `table` is a name made from it: `~` and a fingerprint. Then
    `sql` is ordered by the whole effective order. A scalar aggregate has a row for any values: where the relation has
    none, its other columns are as `empty` says.
    """

    id: str
    sql: str
    table: str
    keys: tuple[str, ...]
    where: Expr | None
    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...]
    framed: bool
    relation: Relation | None = None
    empty: tuple[tuple[str, Value], ...] | None = None
    dialect: str = "sqlite"

    @property
    def ordered(self) -> bool:
        return bool(self.order)

    @property
    def tables(self) -> frozenset[str]:
        """The base tables it reads."""
        return frozenset({self.table}) if self.relation is None else tables_of(self.relation)


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is a stable 63-bit hash of all the rest. `values` stand for `keys`, with the columns' affinity applied."""

    id: int
    template: str
    values: Row = ()
    limit: int | None = None
    offset: int = 0
