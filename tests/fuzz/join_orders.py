"""Join orders drawn at random: what a query's joins give must not depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwater.plan.join_order.cluster import clusters_of
from headwater.plan.join_order.order import JOIN, ClusterOrder, JoinOrder
from headwater.plan.template import Template
from headwater.sql.ir.relation import Relation


@dataclass(frozen=True, slots=True)
class RandomOrders:
    """The same template has the same order."""

    seed: int

    def __call__(self, template: Template) -> JoinOrder | None:
        if template.relation is None:
            return None
        return random_order(template.relation, Random(f"{self.seed} {template.table}"))


def random_order(relation: Relation, random: Random) -> JoinOrder | None:
    """Any tree over the inputs of each cluster, products included; None where there is no cluster."""
    orders = tuple(_tree(len(cluster.inputs), random) for cluster in clusters_of(relation))
    return JoinOrder(orders) if orders else None


def _tree(count: int, random: Random) -> ClusterOrder:
    parts: list[tuple[int, ...]] = [(number,) for number in range(count)]
    while len(parts) > 1:
        random.shuffle(parts)
        parts.append((*parts.pop(), *parts.pop(), JOIN))
    return ClusterOrder(parts[0], (0,) * (count - 1))
