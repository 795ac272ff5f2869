"""The choice: for each cluster of a relation the cheapest order by estimates, or the one as written if that is as good.

A pure function of the relation and what is known of its inputs. The pipeline decides by it once, and logs the result.
"""

from __future__ import annotations

from headwater.plan.join_order.cardinality import Cardinality
from headwater.plan.join_order.cluster import Cluster, clusters_of
from headwater.plan.join_order.order import ClusterOrder, JoinOrder
from headwater.plan.join_order.profile import Profiler
from headwater.plan.join_order.search import as_order, cheapest, cost_of
from headwater.sql.ir.relation import Relation

_WORTH = 0.9  # an order is changed where it costs at most so much of the one as written


def chosen(relation: Relation, profiler: Profiler) -> JoinOrder | None:
    """None where there is nothing to choose."""
    orders = tuple(_cheapest(cluster, profiler) for cluster in clusters_of(relation))
    return JoinOrder(orders) if orders else None


def _cheapest(cluster: Cluster, profiler: Profiler) -> ClusterOrder:
    cardinality = Cardinality(cluster, [profiler(each) for each in cluster.inputs])
    tree = cheapest(cardinality, len(cluster.inputs))
    if cost_of(cardinality, tree) > _WORTH * cost_of(cardinality, cluster.written):
        tree = cluster.written
    return as_order(cardinality, tree)
