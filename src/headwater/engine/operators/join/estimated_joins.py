"""The joins whose rows were estimated when their order was chosen: how many they have, and how far off that was.

It counts and decides nothing: the pipeline does, by what cells report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.engine.operators.join.join import JoinOperator
from headwater.engine.operators.operator import Operator


@dataclass(frozen=True, slots=True)
class EstimatedJoin:
    operator: JoinOperator
    expected: int


@dataclass(frozen=True, slots=True)
class Misestimate:
    """A join that was expected to have so many rows."""

    expected: int
    counted: int

    @property
    def times(self) -> float:
        """By which the estimate is too high or too low."""
        more, less = max(self.expected, self.counted, 1), max(min(self.expected, self.counted), 1)
        return more / less

    def is_wrong(self, times_min: int, rows_min: int) -> bool:
        """By so much, of a join that has so many rows or was expected to."""
        return self.times >= times_min and max(self.expected, self.counted) >= rows_min


def estimated_joins(operators: Iterable[Operator], expected: Mapping[frozenset[str], int]) -> list[EstimatedJoin]:
    """By the columns of each join. From here on their rows are counted."""
    found: list[EstimatedJoin] = []
    for operator in operators if expected else ():
        if isinstance(operator, JoinOperator) and (columns := frozenset(operator.table.names)) in expected:
            operator.counts = True
            found.append(EstimatedJoin(operator, expected[columns]))
    return found


def furthest(joins: Sequence[EstimatedJoin], subscribers: int) -> Misestimate | None:
    """Estimates are for one subscriber; several ask for the same rows, or for others."""
    found = (_of(one, subscribers) for one in joins)
    return max(found, key=lambda one: one.times, default=None)


def _of(join: EstimatedJoin, subscribers: int) -> Misestimate:
    rows = join.operator.rows
    return Misestimate(min(max(rows, join.expected), join.expected * max(subscribers, 1)), rows)
