"""The search for the cheapest order: all of them for a few inputs, step by step for many.

A join costs the pairs it looks at and, where another join follows, the rows it keeps. Joins with no condition between
their sides come last: they are tried only where nothing else is left.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from headwater.plan.join_order.cardinality import Cardinality
from headwater.plan.join_order.cluster import Tree
from headwater.plan.join_order.order import JOIN, ClusterOrder

EXHAUSTIVE_MAX = 9

_MOST = 1 << 62  # rows that are told of a join


def cheapest(cardinality: Cardinality, count: int) -> Tree:
    if count > EXHAUSTIVE_MAX:
        return _greedy(cardinality, count)
    best = _exhaustive(cardinality, count, cardinality.connected)
    whole = (1 << count) - 1
    if whole not in best:
        best = _exhaustive(cardinality, count, lambda left, right: True)
    return best[whole][1]


def _exhaustive(
    cardinality: Cardinality, count: int, allowed: Callable[[int, int], bool]
) -> dict[int, tuple[float, Tree]]:
    """Every way to split every set of inputs, the small sets first: the best of each, with its cost."""
    best: dict[int, tuple[float, Tree]] = {1 << n: (0.0, n) for n in range(count)}
    whole = (1 << count) - 1
    for inputs in range(3, whole + 1):
        lowest = inputs & -inputs
        left = (inputs - 1) & inputs
        while left:
            right = inputs ^ left
            if left & lowest and left in best and right in best and allowed(left, right):
                cost = best[left][0] + best[right][0] + cardinality.pairs(left, right)
                cost += cardinality.rows(inputs) if inputs != whole else 0.0
                if inputs not in best or cost < best[inputs][0]:
                    best[inputs] = cost, (best[left][1], best[right][1])
            left = (left - 1) & inputs
    return best


def _greedy(cardinality: Cardinality, count: int) -> Tree:
    """Again and again the two that give the fewest rows are joined."""
    parts: dict[int, Tree] = {1 << n: n for n in range(count)}
    while len(parts) > 1:
        pairs = list(combinations(sorted(parts), 2))
        pairs = [pair for pair in pairs if cardinality.connected(*pair)] or pairs
        left, right = min(pairs, key=lambda pair: (cardinality.pairs(*pair), pair))
        parts[left | right] = parts.pop(left), parts.pop(right)
    return next(iter(parts.values()))


def cost_of(cardinality: Cardinality, tree: Tree) -> float:
    return _cost(cardinality, tree, last=True)[0]


def _cost(cardinality: Cardinality, tree: Tree, *, last: bool) -> tuple[float, int]:
    if isinstance(tree, int):
        return 0.0, 1 << tree
    (one, left), (other, right) = (_cost(cardinality, side, last=False) for side in tree)
    kept = 0.0 if last else cardinality.rows(left | right)
    return one + other + cardinality.pairs(left, right) + kept, left | right


def as_order(cardinality: Cardinality, tree: Tree) -> ClusterOrder:
    """As it is written down, with what is expected of each join."""
    steps: list[int] = []
    rows: list[int] = []

    def walk(tree: Tree) -> int:
        if isinstance(tree, int):
            steps.append(tree)
            return 1 << tree
        inputs = walk(tree[0]) | walk(tree[1])
        steps.append(JOIN)
        rows.append(min(round(cardinality.rows(inputs)), _MOST))
        return inputs

    walk(tree)
    return ClusterOrder(tuple(steps), tuple(rows))


def as_tree(order: ClusterOrder) -> Tree:
    """What `as_order` was given."""
    stack: list[Tree] = []
    for step in order.steps:
        stack.append((stack.pop(-2), stack.pop()) if step == JOIN else step)
    return stack[0]
