"""JoinOrder: which order was chosen for the joins of a relation, and the relation in that order.

Small enough for a record of the log. It is checked against the relation it is applied to, and never trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headwater.model.errors import Corrupt
from headwater.plan.join_order.cluster import (
    Cluster,
    Conjunct,
    cluster_of,
    clusters_of,
    inputs_below,
    is_inner,
    is_limit,
)
from headwater.sql.ir.conjunction import chain
from headwater.sql.ir.expr import ColumnRef, Output
from headwater.sql.ir.relation import (
    Filter,
    Join,
    Project,
    Relation,
    RelColumn,
    columns_of,
    inputs_of,
    with_inputs,
)

JOIN = -1


class ClusterOrder(msgspec.Struct, frozen=True, array_like=True):
    """`steps` is a tree in postfix notation: the number of an input, or `JOIN` for the two that stand before it. `rows`
    are the rows that each join was estimated to give, in the order of the joins."""

    steps: tuple[int, ...]
    rows: tuple[int, ...]


class JoinOrder(msgspec.Struct, frozen=True, array_like=True):
    """One for each cluster of the relation as written, each before those within its inputs."""

    clusters: tuple[ClusterOrder, ...]


def reordered(relation: Relation, order: JoinOrder | None) -> Relation:
    """The same rows under the same columns in the same order; None is the order as written."""
    if order is None:
        return relation
    if len(order.clusters) != sum(1 for _ in clusters_of(relation)):
        raise _misfit(f"{len(order.clusters)} clusters")
    return _rewritten(relation, iter(order.clusters), under_limit=False)


def estimates(relation: Relation, order: JoinOrder | None) -> Mapping[frozenset[str], int]:
    """The rows that were expected of each join of the relation in that order, by the columns it has."""
    found: dict[frozenset[str], int] = {}
    for cluster, one in zip(clusters_of(relation), order.clusters if order is not None else (), strict=False):
        rows = iter(one.rows)
        stack: list[frozenset[str]] = []
        for step in one.steps:
            if step == JOIN:
                right, left = stack.pop(), stack.pop()
                stack.append(left | right)
                found[stack[-1]] = next(rows)
            else:
                stack.append(frozenset(column.name for column in columns_of(cluster.inputs[step])))
    return found


def _rewritten(relation: Relation, orders: Iterator[ClusterOrder], *, under_limit: bool) -> Relation:
    """Takes orders as `clusters_of` lists clusters."""
    under_limit = under_limit or is_limit(relation)
    if not is_inner(relation):
        return with_inputs(
            relation, [_rewritten(each, orders, under_limit=under_limit) for each in inputs_of(relation)]
        )
    cluster = cluster_of(relation, under_limit=under_limit)
    order = next(orders) if cluster is not None else None
    inputs = [_rewritten(each, orders, under_limit=under_limit) for each in inputs_below(relation)]
    if cluster is None or order is None:
        return _over(relation, iter(inputs))
    return _shown(_joined(cluster, inputs, order), columns_of(relation))


def _over(relation: Relation, inputs: Iterator[Relation]) -> Relation:
    """A cluster as it is written over other inputs."""
    if not is_inner(relation):
        return next(inputs)
    return with_inputs(relation, [_over(each, inputs) for each in inputs_of(relation)])


def _joined(cluster: Cluster, inputs: Sequence[Relation], order: ClusterOrder) -> Relation:
    stack: list[tuple[Relation, int]] = []
    numbers = [step for step in order.steps if step != JOIN]
    if sorted(numbers) != list(range(len(inputs))):
        raise _misfit(f"inputs {numbers}")
    for step in order.steps:
        if step != JOIN:
            stack.append((_filtered(inputs[step], cluster, 1 << step), 1 << step))
        elif len(stack) < 2:
            raise _misfit(f"steps {order.steps}")
        else:
            (right, rights), (left, lefts) = stack.pop(), stack.pop()
            on = [each.expr for each in tested_at(cluster, lefts, rights)]
            stack.append((Join("inner", left, right, chain("and", on) if on else None), lefts | rights))
    if len(stack) != 1:
        raise _misfit(f"steps {order.steps}")
    return stack[0][0]


def tested_at(cluster: Cluster, left: int, right: int) -> list[Conjunct]:
    """The conditions that a join of these inputs tests: those for which it is the first to have all columns. Where two
    sides have equal columns and no condition says so, one that is implied does."""
    whole = left | right
    crossing = [each for each in cluster.conjuncts if _crosses(each.needs, left, right, whole)]
    found = [each for n, each in enumerate(crossing) if not _is_said(cluster, each, crossing[:n])]
    groups = {each.group for each in found}
    for each in cluster.implied:
        if each.group not in groups and _crosses(each.needs, left, right, whole):
            groups.add(each.group)
            found.append(each)
    return found


def _is_said(cluster: Cluster, conjunct: Conjunct, others: Sequence[Conjunct]) -> bool:
    """Whether it follows from another one: the equal columns of each side were found equal before."""
    return conjunct.group in cluster.plain and any(each.group == conjunct.group for each in others)


def _crosses(needs: int, left: int, right: int, whole: int) -> bool:
    return bool(needs) and not needs & ~whole and bool(needs & left) and bool(needs & right)


def _filtered(input: Relation, cluster: Cluster, bit: int) -> Relation:
    """What only one input is needed for; what needs none is tested with the first."""
    own = [each.expr for each in cluster.conjuncts if each.needs == bit or (not each.needs and bit == 1)]
    return Filter(input, chain("and", own)) if own else input


def _shown(relation: Relation, columns: tuple[RelColumn, ...]) -> Relation:
    """Under the columns as written."""
    if columns_of(relation) == columns:
        return relation
    outputs = (Output(c.name, ColumnRef(c.name, c.type, c.sql_type, c.collation)) for c in columns)
    return Project(relation, tuple(outputs), columns)


def _misfit(what: str) -> Corrupt:
    return Corrupt(
        f"the join order does not fit its query: {what}",
        hint="the log was written by another version, or damaged: start with a fresh data directory",
    )
