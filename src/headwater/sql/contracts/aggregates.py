"""What a dialect says of aggregates: which there are, what they take and what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

    from headwater.model.value import Type
    from headwater.sql.bind.scope import Bound, Scope
    from headwater.sql.ir.expr import OrderKey
    from headwater.sql.ir.sql_type import SqlType


class DialectAggregates(Protocol):
    @property
    def kept(self) -> frozenset[str]:
        """Those that groups may keep."""

    def is_aggregate(self, name: str, args: int) -> bool:
        """Whether a call, by its name in lower case and its number of arguments, is one of an aggregate."""

    def arguments(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> Sequence[Bound]:
        """The arguments of an aggregate as it takes them; the node says the same."""

    def order(
        self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound], rows: tuple[OrderKey, ...]
    ) -> tuple[OrderKey, ...]:
        """The total order in which an aggregate takes its values, where it shows; the node says the same. `rows` is the
        order of FROM, if that has one."""

    def result(self, scope: Scope, node: exp.Anonymous, args: Sequence[Bound]) -> tuple[Type, SqlType]:
        """Type and SQL type of an aggregate's result; refuses what it cannot keep."""
