"""Statistics: what is known of the rows of tables: how many, how many different values, which of them are common.

Estimates, from the database or from rows that were read. Results never depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.value import Value


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """`distinct` counts the different values, without NULL, that the table has, whether a test lets them pass or not;
    `nulls` is the share of NULLs; `common` are values with their share of all rows."""

    distinct: float
    nulls: float = 0.0
    common: Mapping[Value, float] = field(default_factory=dict)

    @property
    def rest(self) -> float:
        """The share of a value that is not common."""
        left = 1.0 - self.nulls - sum(self.common.values())
        others = self.distinct - len(self.common)
        return max(left, 0.0) / others if others >= 1 else 0.0

    def share(self, value: Value) -> float:
        return self.common.get(value, self.rest)


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Columns of which nothing is known are left out."""

    rows: float
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


Statistics = Mapping[str, TableStatistics]  # by table; one of which nothing is known is left out
