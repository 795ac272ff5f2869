"""Demand: the values that subscribers ask for, pushed down to the scans that they reach through equalities.

A relation with demand holds the rows that somebody asks for, and perhaps others: who asks still compares every row with
its values. So demand may stop anywhere on its way down, and is worth it wherever it arrives beneath a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.plan.equal_columns import class_of, classes, equations, merged
from headwater.sql.evaluation import Evaluator
from headwater.sql.ir.expr import ColumnRef, Expr, Output
from headwater.sql.ir.predicate import Op
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
    columns_of,
    inputs_of,
)

Asked = Mapping[int, str]  # hole → the column that has its value


def demanded(relation: Relation, lifted: Sequence[tuple[str, Op]], evaluator: Evaluator) -> Relation:
    """The relation itself where demand reaches no scan, or would save nothing: an operator on rows of one table keeps
    less than the index that demand needs."""
    if not _worth_it(relation):
        return relation
    asked = {hole: column for hole, (column, op) in enumerate(lifted) if op in ("=", "in")}
    lists = frozenset(hole for hole, (_, op) in enumerate(lifted) if op == "in")
    collations = {column.name: column.collation for column in columns_of(relation)}
    return _Push(lists, {hole: collations[column] for hole, column in asked.items()}, evaluator).into(relation, asked)


def _worth_it(relation: Relation) -> bool:
    return isinstance(relation, Join | Exists | Mark) or any(map(_worth_it, inputs_of(relation)))


def demands_of(relation: Relation) -> Iterator[Demand]:
    if isinstance(relation, Demand):
        yield relation
    for each in inputs_of(relation):
        yield from demands_of(each)


@dataclass(frozen=True, slots=True)
class _Push:
    """`lists` are the holes that take a list; `collations` those by which their values are compared."""

    lists: frozenset[int]
    collations: Mapping[int, str]
    evaluator: Evaluator

    def into(self, relation: Relation, asked: Asked) -> Relation:
        if not asked:
            return relation
        match relation:
            case Scan():
                return self._at(relation, asked)
            case Filter(input=input):
                return replace(relation, input=self.into(input, asked))
            case Project(input=input, outputs=outputs):
                return replace(relation, input=self.into(input, _beneath(asked, outputs)))
            case Group(input=input, keys=keys):
                return replace(relation, input=self.into(input, _beneath(self._whole(relation, asked), keys)))
            case Distinct(input=input):
                return replace(relation, input=self.into(input, self._whole(relation, asked)))
            case Top():
                return replace(relation, input=self.into(relation.input, self._counted(relation, asked)))
            case SetOperation(left=left, right=right):
                whole = self._whole(relation, asked)
                left, right = (self.into(side, _by_place(whole, relation, side)) for side in (left, right))
                return replace(relation, left=left, right=right)
            case Join():
                return self._join(relation, asked)
            case Exists() | Mark():
                return self._exists(relation, asked)
            case _:
                return relation

    def _whole(self, relation: Relation, asked: Asked) -> dict[int, str]:
        """The columns by which rows that are put together are all asked for, or none of them."""
        collations = {column.name: column.collation for column in columns_of(relation)}
        return {hole: name for hole, name in asked.items() if collations[name] in ("BINARY", self.collations[hole])}

    def _counted(self, top: Top, asked: Asked) -> Asked:
        """A limit counts the rows that are asked for alone where it counts for each value anew."""
        if top.limit is None and not top.offset:
            return asked
        counted = {expr.name for expr in top.partition if isinstance(expr, ColumnRef)}
        return {hole: name for hole, name in self._whole(top, asked).items() if name in counted}

    def _at(self, scan: Scan, asked: Asked) -> Relation:
        """Values that one subscriber asks for in several columns stay together; lists stand alone."""
        found: Relation = scan
        single = [hole for hole in sorted(asked) if hole not in self.lists]
        for holes in (single, *([hole] for hole in sorted(self.lists & asked.keys()))):
            if holes:
                columns, collations = zip(*((asked[hole], self.collations[hole]) for hole in holes), strict=True)
                found = Demand(found, columns, collations, tuple(holes))
        return found

    def _join(self, join: Join, asked: Asked) -> Relation:
        """A row that an outer join pads has NULL there, which nobody asks for: what is asked of the padded side is
        pushed only together with what equals it on the other, or more rows would be padded."""
        left, right = self._reached(join, join.left, join.on, asked), self._reached(join, join.right, join.on, asked)
        if join.kind == "full":
            return join
        if join.kind != "inner":
            kept = left if join.kind == "left" else right
            left, right = ({hole: name for hole, name in side.items() if hole in kept} for side in (left, right))
        return replace(join, left=self.into(join.left, left), right=self.into(join.right, right))

    def _exists(self, relation: Exists | Mark, asked: Asked) -> Relation:
        """A NULL on the right of NOT IN concerns every row of the left."""
        left = {hole: name for hole, name in asked.items() if name in _names(relation.left)}
        right = {} if relation.null_aware else self._reached(relation, relation.right, relation.on, left)
        return replace(relation, left=self.into(relation.left, left), right=self.into(relation.right, right))

    def _reached(self, relation: Join | Exists | Mark, side: Relation, on: Expr | None, asked: Asked) -> dict[int, str]:
        """The columns of a side that must have these values in every pair of rows that meet."""
        inside = (*classes(relation.left, self.evaluator), *classes(relation.right, self.evaluator))
        equal = merged([*inside, *equations(on, self.evaluator)])
        collations = {column.name: column.collation for column in columns_of(side)}
        found: dict[int, str] = {}
        for hole, name in asked.items():
            same = class_of(name, equal)
            fitting = (each for each, by in collations.items() if each in same and by == self.collations[hole])
            other = name if name in collations else next(fitting, None)
            if other is not None:
                found[hole] = other
        return found


def _names(relation: Relation) -> set[str]:
    return {column.name for column in columns_of(relation)}


def _beneath(asked: Asked, outputs: Sequence[Output]) -> dict[int, str]:
    """By the names that columns have before they are shown under another."""
    plain = {output.name: output.expr.name for output in outputs if isinstance(output.expr, ColumnRef)}
    return {hole: plain[name] for hole, name in asked.items() if name in plain}


def _by_place(asked: Asked, relation: SetOperation, side: Relation) -> dict[int, str]:
    """Where a column of the side is what it is in the whole."""
    pairs = {whole.name: (whole, part) for whole, part in zip(relation.columns, columns_of(side), strict=True)}
    alike = {
        name: part.name
        for name, (whole, part) in pairs.items()
        if whole.type is part.type and whole.collation == part.collation
    }
    return {hole: alike[name] for hole, name in asked.items() if name in alike}
