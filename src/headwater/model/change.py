"""What a source reports: changes of rows, grouped in transactions. No images are interpreted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.model.value import Row


@dataclass(frozen=True, slots=True)
class Change:
    """One row of one table. No `old`: an insert. No `new`: a delete. Both: an update, of the key too perhaps."""

    table: str
    old: Row | None
    new: Row | None


@dataclass(frozen=True, slots=True)
class Transaction:
    """One source transaction: its changes as they were made, and the source's position just after its commit.

    The changes are a tuple, or a slice of `ColumnarChanges`. `committed_at` is the time of its commit by the source's
    clock, in seconds since 1970, where the source tells: for metrics alone."""

    position: int
    changes: Sequence[Change]
    committed_at: float | None = field(default=None, compare=False)
