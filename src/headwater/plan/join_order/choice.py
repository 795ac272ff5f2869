"""The choice: for each cluster of a relation the cheapest order by estimates, or the one as written if that is as good.

A pure function of the relation and what is known of its inputs. The pipeline decides by it when a template is
activated, and again when rows turn out to be many more or fewer than was expected; it logs the result.
"""

from __future__ import annotations

from headwater.plan.join_order.cardinality import Cardinality
from headwater.plan.join_order.cluster import Cluster, clusters_of
from headwater.plan.join_order.order import ClusterOrder, JoinOrder
from headwater.plan.join_order.profile import Profiler
from headwater.plan.join_order.search import as_order, as_tree, cheapest, cost_of
from headwater.sql.ir.relation import Relation

_WORTH = 0.9  # an order is changed where it costs at most so much of the one as written
_WORTH_AGAIN = 0.5  # the same of an order that runs already: to change it costs a reading of the tables


def chosen(relation: Relation, profiler: Profiler) -> JoinOrder | None:
    """None where there is nothing to choose."""
    orders = tuple(_cheapest(cluster, profiler) for cluster in clusters_of(relation))
    return JoinOrder(orders) if orders else None


def _cheapest(cluster: Cluster, profiler: Profiler) -> ClusterOrder:
    cardinality = _cardinality(cluster, profiler)
    tree = cheapest(cardinality, len(cluster.inputs))
    if cost_of(cardinality, tree) > _WORTH * cost_of(cardinality, cluster.written):
        tree = cluster.written
    return as_order(cardinality, tree)


def _cardinality(cluster: Cluster, profiler: Profiler) -> Cardinality:
    return Cardinality(cluster, [profiler(each) for each in cluster.inputs])


def better(relation: Relation, profiler: Profiler, current: JoinOrder) -> JoinOrder | None:
    """The cheapest order by what is known now, if that is much cheaper than the one that runs; with new estimates for
    all joins. None where it is not."""
    clusters = [(cluster, _cardinality(cluster, profiler)) for cluster in clusters_of(relation)]
    orders, turned = [], False
    for (cluster, cardinality), before in zip(clusters, current.clusters, strict=True):
        best, now = cheapest(cardinality, len(cluster.inputs)), as_tree(before)
        turns = cost_of(cardinality, best) <= _WORTH_AGAIN * cost_of(cardinality, now)
        orders.append(as_order(cardinality, best if turns else now))
        turned = turned or turns
    return JoinOrder(tuple(orders)) if turned else None
