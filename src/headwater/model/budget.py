"""Budget: how many pairs of rows, and how many bytes, one hydration or one step of a relation may make.

It is charged before anything is allocated, and raises `OverBudget`. It reads no clock: the rows alone decide what is
over budget.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.errors import OverBudget
from headwater.model.limits import DEFAULT, Limits
from headwater.model.value import Row

_INDEX_BYTES = 40  # of a pair: which rows, who they are, how often and when
_WEIGHED_PAIRS_MIN = 4097  # fewer are counted, and not weighed: to ask Arrow how large rows are takes longer
_HINT = "join the tables by an equality, or ask for fewer rows"


@dataclass(slots=True)
class Budget:
    """What is left of it."""

    pairs: int = sys.maxsize
    bytes: int = sys.maxsize
    pairs_max: int = sys.maxsize
    bytes_max: int = sys.maxsize

    @classmethod
    def of(cls, limits: Limits) -> Budget:
        return cls(limits.work_pairs_max, limits.work_bytes_max, limits.work_pairs_max, limits.work_bytes_max)

    def charge_pairs(self, count: int) -> None:
        """Before so many candidate pairs are listed."""
        self.pairs -= count
        if self.pairs < 0:
            met = self.pairs_max - self.pairs
            raise OverBudget(
                f"the query joins at least {met:,} pairs of rows at once, more than the {self.pairs_max:,} allowed",
                hint=_HINT,
            )
        if count >= _WEIGHED_PAIRS_MIN:
            self._charge(count * _INDEX_BYTES)

    def weighs(self, count: int) -> bool:
        """Whether so many rows are charged by their bytes."""
        return count >= _WEIGHED_PAIRS_MIN

    def charge_rows(self, count: int, *rows: pa.RecordBatch) -> None:
        """Before so many rows are made, each of an average row of each of these."""
        if self.weighs(count):
            self._charge(count * sum(-(-each.nbytes // each.num_rows) for each in rows if each.num_rows))

    def _charge(self, bytes: int) -> None:
        self.bytes -= bytes
        if self.bytes < 0:
            need = self.bytes_max - self.bytes
            raise OverBudget(
                f"the query's joins take at least {need:,} bytes at once, more than the {self.bytes_max:,} allowed",
                hint=_HINT,
            )


class InnerValues(threading.local):
    """Bytes that this thread may still make inside its expressions, for values that no row shows. Unlimited where rows
    are not weighed."""

    left: int = sys.maxsize

    def charge(self, length: int) -> None:
        self.left -= length
        if self.left < 0:
            raise too_many_values()


INNER_VALUES = InnerValues()


def weighed(rows: Iterable[Row], limits: Limits = DEFAULT) -> list[Row]:
    """Computed rows, taken as they are made; texts and blobs that are too many bytes together are refused."""
    kept: list[Row] = []
    left = INNER_VALUES.left = limits.values_bytes_max
    try:
        for row in rows:
            kept.append(row)
            for value in row:
                if value.__class__ is str or value.__class__ is bytes:
                    left -= len(value)
            if left < 0:
                raise too_many_values(limits)
    finally:
        INNER_VALUES.left = sys.maxsize
    return kept


def too_many_values(limits: Limits = DEFAULT) -> OverBudget:
    return OverBudget(
        f"the query's expressions make more than {limits.values_bytes_max:,} bytes of values at once",
        hint="compute shorter texts, or ask for fewer rows",
    )
