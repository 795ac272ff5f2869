"""Join orders drawn at random: what a query's joins give does not depend on them. For tests and benchmarks."""

from __future__ import annotations

from random import Random

from headwater.plan.join_order.cluster import clusters_of
from headwater.plan.join_order.order import JOIN, ClusterOrder, JoinOrder
from headwater.sql.ir.relation import Relation


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
