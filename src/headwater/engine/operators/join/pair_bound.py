"""An upper bound on the pairs of rows that a relation's joins compare, from the row counts of its tables.

A join on a key of one side compares each row of the other side once; any other join may compare all with all. It reads
no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.engine.operators.identity_columns import identity_of
from headwater.engine.operators.join.condition import Equation, conjuncts, equation
from headwater.engine.rows.batch import table_of
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import (
    Demand,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    Mark,
    Project,
    Relation,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
    inputs_of,
)

Rows = Mapping[str, int]


def pairs_at_most(relation: Relation, rows: Rows) -> int:
    """Of all its joins together."""
    return _Bound(rows).all_pairs(relation)


def rows_at_most(relation: Relation, rows: Rows) -> int:
    return _Bound(rows).rows(relation)


@dataclass(slots=True)
class _Bound:
    """What is known of a relation is found out once, however many joins are above it."""

    given: Rows
    _rows: dict[int, int] = field(default_factory=dict)  # by the `id` of a relation, which whoever asks holds
    _pairs: dict[int, int] = field(default_factory=dict)
    _keys: dict[int, list[frozenset[str]]] = field(default_factory=dict)

    def all_pairs(self, relation: Relation) -> int:
        below = sum(map(self.all_pairs, inputs_of(relation)))
        return below + (self.pairs(relation) if isinstance(relation, Join | Exists | Mark) else 0)

    def rows(self, relation: Relation) -> int:
        if (known := self._rows.get(id(relation))) is None:
            known = self._rows[id(relation)] = self._count(relation)
        return known

    def pairs(self, relation: Join | Exists | Mark) -> int:
        if (known := self._pairs.get(id(relation))) is None:
            known = self._pairs[id(relation)] = self._compared(relation)
        return known

    def keys(self, relation: Relation) -> list[frozenset[str]]:
        """Sets of columns that tell its rows apart; there may be others."""
        if (known := self._keys.get(id(relation))) is None:
            known = self._keys[id(relation)] = self._telling_apart(relation)
        return known

    def _count(self, relation: Relation) -> int:
        match relation:
            case Demand():
                return 0
            case Scan(table=table):
                return self.given[table]
            case Values():
                return len(relation.rows)
            case Filter(input=input) | Project(input=input) | Distinct(input=input):
                return self.rows(input)
            case Top(input=input, limit=limit, partition=partition):
                most = self.rows(input)
                return most if limit is None or partition else min(most, limit)
            case Group(input=input, keys=keys):
                return self.rows(input) if keys else 1
            case Exists(left=left) | Mark(left=left):
                return self.rows(left)
            case SetOperation(kind="union"):
                return self.rows(relation.left) + self.rows(relation.right)
            case SetOperation():
                return self.rows(relation.left)
            case Join():
                return self._joined(relation)

    def _joined(self, join: Join) -> int:
        """Its pairs, and of an outer join what is left over."""
        left = self.rows(join.left) if join.kind in ("left", "full") else 0
        right = self.rows(join.right) if join.kind in ("right", "full") else 0
        return self.pairs(join) + left + right

    def _compared(self, relation: Join | Exists | Mark) -> int:
        left, right = self.rows(relation.left), self.rows(relation.right)
        equations = _equations(relation)
        most = left * right
        if _tell_apart({each.right.name for each in equations}, self.keys(relation.right)):
            most = min(most, left)
        if _tell_apart({each.left.name for each in equations}, self.keys(relation.left)):
            most = min(most, right)
        return most

    def _telling_apart(self, relation: Relation) -> list[frozenset[str]]:
        match relation:
            case Filter(input=input) | Top(input=input):
                return self.keys(input)
            case Join(kind="inner" | "left"):
                return self._keys_joined(relation)
            case Project(input=input, outputs=outputs):
                shown = {one.expr.name: one.name for one in reversed(outputs) if isinstance(one.expr, ColumnRef)}
                return [frozenset(shown[name] for name in key) for key in self.keys(input) if key <= shown.keys()]
            case _:
                identity = identity_of(relation)
                return [] if identity is None else [frozenset(name for part in identity for name in part.columns)]

    def _keys_joined(self, join: Join) -> list[frozenset[str]]:
        """A side whose rows meet one row of the other at most tells by itself what was joined."""
        left, right = self.keys(join.left), self.keys(join.right)
        equations = _equations(join)
        keys = left if _tell_apart({each.right.name for each in equations}, right) else []
        if join.kind == "inner" and _tell_apart({each.left.name for each in equations}, left):
            keys = [*keys, *right]
        return keys or [one | other for one in left[:1] for other in right[:1]]


def _equations(relation: Join | Exists | Mark) -> list[Equation]:
    left, right = table_of(columns_of(relation.left)), table_of(columns_of(relation.right))
    parts = () if relation.on is None else conjuncts(relation.on)
    return [each for part in parts if (each := equation(part, left, right))]


def _tell_apart(columns: set[str], keys: list[frozenset[str]]) -> bool:
    """Whether no two rows are equal in all these columns."""
    return any(columns >= key for key in keys)
