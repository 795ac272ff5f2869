"""The order of joins: what is chosen, what it may not change, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from headwater.engine.operators.derived import Derived
from headwater.engine.operators.identity_columns import identity_of
from headwater.engine.rows.work import Work
from headwater.log.record import Record
from headwater.model.errors import Corrupt
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.pipeline.records.control import Activate, decode_control, encode_control
from headwater.plan.join_order.cardinality import Cardinality
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.cluster import Tree, clusters_of
from headwater.plan.join_order.order import JOIN, ClusterOrder, JoinOrder, estimates, reordered
from headwater.plan.join_order.profile import profiler
from headwater.plan.join_order.random_order import random_order
from headwater.plan.join_order.search import as_order, cheapest, cost_of
from headwater.plan.join_order.statistics import ColumnStatistics, TableStatistics
from headwater.plan.planner import plan
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.relation import Join, Relation, Scan, columns_of, inputs_of
from headwater.sql.ir.relation_text import tree
from tests.engine.world import batch_of

TABLES = [
    Table(name, tuple(Column(each, Type.INTEGER, "INTEGER") for each in ("id", "x", "y", "z")), ("id",))
    for name in ("t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9")
]
CHAIN = "SELECT t0.id AS i FROM t2, t0, t3, t1 WHERE t0.x = t1.id AND t1.x = t2.id AND t2.x = t3.id"


def relation_of(sql: str) -> Relation:
    relation = plan(sql, TABLES).template.relation
    assert relation is not None
    return relation


def nodes(relation: Relation) -> Iterator[Relation]:
    yield relation
    for each in inputs_of(relation):
        yield from nodes(each)


def lines(relation: Relation) -> list[str]:
    return list(tree(relation, ExprText()))


def rows(**counts: float) -> dict[str, TableStatistics]:
    return {name: TableStatistics(count) for name, count in counts.items()}


def scans(relation: Relation) -> list[str]:
    """From the first that is joined to the last."""
    return [node.table for node in nodes(relation) if isinstance(node, Scan)]


def test_tables_without_a_condition_between_them_are_not_joined_first() -> None:
    relation = relation_of(CHAIN)
    assert any(isinstance(node, Join) and node.on is None for node in nodes(relation))
    order = chosen(relation, profiler({}))
    assert all(node.on is not None for node in nodes(reordered(relation, order)) if isinstance(node, Join))


def test_the_join_that_leaves_few_rows_comes_first() -> None:
    star = "SELECT t0.id AS i FROM t0, t1, t2, t3 WHERE t0.x = t1.id AND t0.y = t2.id AND t0.z = t3.id AND t2.y + 0 = 7"
    relation = relation_of(star)
    known = {"t0": TableStatistics(100_000, {name: ColumnStatistics(1000) for name in "xyz"})}
    order = chosen(relation, profiler(known | rows(t1=1000, t2=1000, t3=1000)))
    assert scans(reordered(relation, order))[:2] == ["t0", "t2"]
    assert estimates(relation, order)[frozenset({"t0.id", "t0.x", "t0.y", "t0.z", "t2.id", "t2.y"})] == 10_000


def test_a_value_that_is_common_on_both_sides_is_joined_late() -> None:
    sql = "SELECT t0.id AS i FROM t0, t1, t2 WHERE t0.x = t1.x AND t0.y = t2.y"
    even = ColumnStatistics(100)
    skewed = ColumnStatistics(100, 0.0, {7: 0.5})
    skew = {
        "t0": TableStatistics(1000, {"x": skewed, "y": even}),
        "t1": TableStatistics(1000, {"x": skewed}),
        "t2": TableStatistics(1000, {"y": even}),
    }
    relation = relation_of(sql)
    assert scans(reordered(relation, chosen(relation, profiler(skew))))[:2] == ["t0", "t2"]


def test_an_equality_that_follows_from_others_joins_tables_that_no_condition_names() -> None:
    relation = relation_of("SELECT t0.id AS i FROM t0, t1, t2 WHERE t0.x = t1.x AND t1.x = t2.x")
    order = JoinOrder((ClusterOrder((0, 2, JOIN, 1, JOIN), (0, 0)),))
    assert '"t0.x" = "t2.x"' in "\n".join(lines(reordered(relation, order)))


@pytest.mark.parametrize("seed", range(20))
def test_of_all_orders_the_cheapest_is_found(seed: int) -> None:
    random = Random(seed)
    names = [f"t{n}" for n in range(5)]
    random.shuffle(names)
    pairs = [(random.choice(names[:n]), name) for n, name in enumerate(names) if n]
    conditions = [f"{one}.{random.choice('xyz')} = {other}.{random.choice(('id', 'x'))}" for one, other in pairs]
    relation = relation_of(f"SELECT t0.id AS i FROM {', '.join(names)} WHERE {' AND '.join(conditions)}")
    (cluster,) = clusters_of(relation)
    profile = profiler(rows(**{name: random.choice((10, 100, 5000)) for name in names}))
    cardinality = Cardinality(cluster, [profile(each) for each in cluster.inputs])
    best = min(cost_of(cardinality, each) for each in trees(cardinality, tuple(range(5))))
    assert cost_of(cardinality, cheapest(cardinality, 5)) == pytest.approx(best)


def trees(cardinality: Cardinality, inputs: tuple[int, ...]) -> Iterator[Tree]:
    """Every one without a product."""
    if len(inputs) == 1:
        yield inputs[0]
    for choice in range(1, 2 ** (len(inputs) - 1)):
        left = tuple(each for n, each in enumerate(inputs) if n and choice >> (n - 1) & 1)
        right = tuple(each for each in inputs if each not in left)
        if cardinality.connected(sum(1 << n for n in left), sum(1 << n for n in right)):
            yield from ((one, other) for one in trees(cardinality, left) for other in trees(cardinality, right))


def test_ten_tables_are_ordered_step_by_step_and_without_products() -> None:
    names = [f"t{n}" for n in range(10)]
    Random(1).shuffle(names)
    conditions = " AND ".join(f"t{n}.x = t{n + 1}.id" for n in range(9))
    relation = relation_of(f"SELECT t0.id AS i FROM {', '.join(names)} WHERE {conditions}")
    found = reordered(relation, chosen(relation, profiler({})))
    assert all(node.on is not None for node in nodes(found) if isinstance(node, Join))


def test_columns_and_identity_are_those_of_the_query_as_written() -> None:
    relation = relation_of(CHAIN)
    for seed in range(10):
        found = reordered(relation, random_order(relation, Random(seed)))
        assert columns_of(found) == columns_of(relation)
        assert sorted(scans(found)) == sorted(scans(relation))
        names = [frozenset(part.columns) for part in identity_of(found) or ()]
        assert sorted(map(sorted, names)) == sorted(sorted(part.columns) for part in identity_of(relation) or ())


def test_an_order_that_is_as_good_as_the_one_written_changes_nothing() -> None:
    relation = relation_of("SELECT t0.id AS i FROM t0 JOIN t1 ON t0.x = t1.id JOIN t2 ON t1.x = t2.id")
    assert reordered(relation, chosen(relation, profiler({}))) == relation


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t0.id AS i FROM t0 JOIN t1 ON t0.x = t1.id",
        "SELECT t0.id AS i FROM t0 LEFT JOIN t1 ON t0.x = t1.id LEFT JOIN t2 ON t1.x = t2.id",
        "SELECT t0.id AS i FROM t0, t1, t2 WHERE abs(t0.x) = t1.id AND abs(t1.x) = t2.id",
    ],
    ids=["two inputs", "outer joins", "conditions that may fail"],
)
def test_there_is_nothing_to_choose(sql: str) -> None:
    assert chosen(relation_of(sql), profiler({})) is None


@pytest.mark.parametrize(
    "steps",
    [(0, 1, JOIN), (0, 1, JOIN, 2, JOIN, 2, JOIN), (0, JOIN, 1, 2, 3, JOIN, JOIN), (0, 1, 2, 3), (0, 1, 2, 9, JOIN)],
)
def test_an_order_that_does_not_fit_is_refused(steps: tuple[int, ...]) -> None:
    relation = relation_of(CHAIN)
    with pytest.raises(Corrupt, match="join order does not fit"):
        reordered(relation, JoinOrder((ClusterOrder(steps, ()),)))
    with pytest.raises(Corrupt, match="join order does not fit"):
        reordered(relation, JoinOrder(()))


def test_an_order_is_part_of_the_record_that_activates_a_template() -> None:
    relation = relation_of(CHAIN)
    activate = Activate("t", "SELECT 1", (), order=chosen(relation, profiler({})))
    kind, payload = encode_control(activate)
    assert decode_control(Record(0, kind, payload)) == activate
    assert activate.order is not None


def test_what_is_known_of_a_row_that_fails_does_not_depend_on_the_order() -> None:
    relation = relation_of(
        "SELECT t0.x AS a, t1.x AS b, t2.y AS c FROM t0, t1, t2, t3 "
        "WHERE t0.x = t1.x AND t1.y = t2.y AND t2.z = t3.z AND t0.y = t3.y AND abs(t1.z) = 1"
    )
    tables = {table.name: table for table in TABLES}
    loaded = {name: [batch_of(tables[name], [(1, 5, 6, -(2**63)), (2, 5, 6, 1)])] for name in ("t0", "t1", "t2", "t3")}
    told = []
    for order in (None, *(random_order(relation, Random(seed)) for seed in range(8))):
        derived = Derived("d", relation, tables, Work(), order=order)
        list(derived.load(loaded))
        told.append(derived.failed)
    assert told[0] and all(each == told[0] for each in told)


def test_an_estimate_is_written_down_for_each_join() -> None:
    (cluster,) = clusters_of(relation_of(CHAIN))
    cardinality = Cardinality(cluster, [profiler({})(each) for each in cluster.inputs])
    assert len(as_order(cardinality, cluster.written).rows) == 3


def test_small_tables_of_which_only_the_rows_are_known_are_not_expected_to_multiply() -> None:
    chain = " AND ".join(f"t{n}.x = t{n + 1}.y" for n in range(9))
    sql = f"SELECT t0.id AS i FROM {', '.join(table.name for table in TABLES)} WHERE {chain}"
    relation = relation_of(sql)
    order = chosen(relation, profiler({table.name: TableStatistics(10) for table in TABLES}))
    assert set(estimates(relation, order).values()) == {10}


def test_a_large_table_of_which_only_the_rows_are_known_has_ten_rows_for_a_value() -> None:
    relation = relation_of("SELECT t0.id AS i FROM t0, t1, t2 WHERE t0.x = t1.y AND t1.x = t2.y")
    order = chosen(relation, profiler(rows(t0=100_000, t1=10, t2=10)))
    assert max(estimates(relation, order).values()) == 100
