"""Cardinality: the rows that any join of some inputs of a cluster is estimated to have, however it came about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from headwater.plan.join_order.cluster import Cluster
from headwater.plan.join_order.profile import Profile, matched, selectivity, where
from headwater.sql.ir.expr import Call, ColumnRef
from headwater.sql.ir.relation import Demand, Filter, Relation, Scan, columns_of
from headwater.sql.ir.walk import names_in

_LEAST = 1e-6  # estimates are compared, so none is zero


class Cardinality:
    """Sets of inputs are numbers with a bit for each."""

    def __init__(self, cluster: Cluster, profiles: Sequence[Profile]) -> None:
        self._profiles = [_with_own(cluster, n, profile) for n, profile in enumerate(profiles)]
        self._rows: dict[int, float] = {}
        self._groups = list(self._members(cluster))
        whole = Profile(1.0, {name: each for one in self._profiles for name, each in one.columns.items()})
        self._tests = [
            (each.needs, selectivity(each.expr, whole), _is_equation(each.expr))
            for each in cluster.conjuncts
            if each.group is None and each.needs.bit_count() > 1
        ]
        self._keys = [self._composite(n, input) for n, input in enumerate(cluster.inputs)]
        self._edges = [each.needs for each in (*cluster.conjuncts, *cluster.implied) if each.needs.bit_count() > 1]

    def _members(self, cluster: Cluster) -> Iterator[list[tuple[int, str]]]:
        """Of each group of columns that are equal: the bit of an input, and its column."""
        names: dict[int, set[str]] = {}
        for each in cluster.conjuncts:
            if each.group is not None:
                names.setdefault(each.group, set()).update(names_in(each.expr))
        for group in names.values():
            inputs = enumerate(cluster.inputs)
            yield [(1 << n, c.name) for n, input in inputs for c in columns_of(input) if c.name in group]

    def _composite(self, number: int, input: Relation) -> tuple[frozenset[int], float]:
        """The groups that a key of several columns belongs to, and by how much more values these would have if they had
        nothing to do with each other."""
        scan = input
        while isinstance(scan, Filter | Demand):
            scan = scan.input
        key = scan.key if isinstance(scan, Scan) and len(scan.key) > 1 else ()
        groups = frozenset(n for n, group in enumerate(self._groups) for _, name in group if name in key)
        profile = self._profiles[number]
        if not key or len(groups) < len(key):
            return frozenset(), 1.0
        apart = math.prod(profile.column(name).distinct for name in key)
        return groups, max(apart / max(profile.rows, 1.0), 1.0)

    def rows(self, inputs: int) -> float:
        known = self._rows.get(inputs)
        if known is None:
            known = self._rows[inputs] = max(self._estimated(inputs), _LEAST)
        return known

    def _estimated(self, inputs: int) -> float:
        rows = math.prod(each.rows for n, each in enumerate(self._profiles) if inputs >> n & 1)
        joined: set[int] = set()
        for number, group in enumerate(self._groups):
            columns = [self._profiles[bit.bit_length() - 1].column(name) for bit, name in group if bit & inputs]
            if len(columns) > 1:
                joined.add(number)
                rows *= matched(columns)
        for n, (groups, too_many) in enumerate(self._keys):
            if inputs >> n & 1 and groups and groups <= joined:
                rows *= too_many
                joined -= groups
        return rows * math.prod(share for needs, share, _ in self._tests if not needs & ~inputs)

    def pairs(self, left: int, right: int) -> float:
        """That a join of the two has to look at: an index finds what is equal, the rest is tested pair by pair."""
        whole = left | right
        tested = (
            share
            for needs, share, equation in self._tests
            if not equation and not needs & ~whole and needs & left and needs & right
        )
        return self.rows(whole) / max(math.prod(tested), _LEAST)

    def connected(self, left: int, right: int) -> bool:
        """Whether a condition is about both, and about nothing else."""
        whole = left | right
        return any(needs & left and needs & right and not needs & ~whole for needs in self._edges)


def _with_own(cluster: Cluster, number: int, profile: Profile) -> Profile:
    for each in cluster.conjuncts:
        if each.needs == 1 << number:
            profile = where(profile, each.expr)
    return profile


def _is_equation(expr: object) -> bool:
    match expr:
        case Call("=" | "is" | "float8 =" | "float8 is", (ColumnRef(), ColumnRef())):
            return True
        case _:
            return False
