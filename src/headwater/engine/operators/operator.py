"""Operator: the contract of every operator: updates of its inputs in, updates of its output out.

Output up to t = operator(input up to t), for every t in the step. The first step is the hydration: all present rows, at
one tx. An operator keeps its state in bags and tallies, or can rebuild it from them.
"""

from __future__ import annotations

from typing import Protocol

from headwater.engine.rows.batch import Batch
from headwater.engine.state.persistence import State
from headwater.model.schema import Table


class Operator(Protocol):
    @property
    def table(self) -> Table: ...

    def step(self, inputs: list[Batch]) -> Batch:
        """One batch of updates for each input."""
        ...

    def state(self) -> list[State]:
        """Everything the operator remembers."""
        ...

    def resume(self) -> None:
        """The state was restored: whatever was made of it is made again."""
        ...
