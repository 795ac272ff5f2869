"""PlanOptions: strategies and join orders that are forced, for tests and benchmarks. It plans nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwater.model.errors import HeadwaterError
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.join_order.profile import Profiler
from headwater.plan.join_order.random_order import random_order
from headwater.plan.strategy import STRATEGIES
from headwater.sql.ir.relation import Relation

_ORDERS = ("chosen", "written")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """`strategy`: the one of every query; a query that it cannot serve is refused. None chooses, and chooses again when
    another turns out cheaper. `join_order`: "chosen" by cost, as "written", or the seed of random ones."""

    strategy: str | None = None
    join_order: str | int = "chosen"

    def checked(self) -> PlanOptions:
        if self.strategy is not None and self.strategy not in STRATEGIES:
            raise HeadwaterError(
                f"expected a strategy of {', '.join(STRATEGIES)}, found {self.strategy!r}",
                hint="leave it out: each query then gets the best one that can serve it",
            )
        if isinstance(self.join_order, str) and self.join_order not in _ORDERS:
            raise HeadwaterError(
                f"expected a join order of {', '.join(_ORDERS)}, or the seed of a random one, "
                f"found {self.join_order!r}",
            )
        return self

    @property
    def chooses_order(self) -> bool:
        return self.join_order == "chosen"

    @property
    def is_default(self) -> bool:
        return self == PlanOptions()

    def order(self, relation: Relation, profiler: Profiler) -> JoinOrder | None:
        """The order in which the joins of a relation run; None is the one as written."""
        if self.join_order == "chosen":
            return chosen(relation, profiler)
        if self.join_order == "written":
            return None
        return random_order(relation, Random(f"{self.join_order} {relation!r}"))
