"""Join orders drawn at random: what a query's joins give must not depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwater.plan.join_order.order import JoinOrder
from headwater.plan.join_order.random_order import random_order
from headwater.plan.template import Template


@dataclass(frozen=True, slots=True)
class RandomOrders:
    """The same template has the same order."""

    seed: int

    def __call__(self, template: Template) -> JoinOrder | None:
        if template.relation is None:
            return None
        return random_order(template.relation, Random(f"{self.seed} {template.table}"))
