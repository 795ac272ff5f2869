"""EditList: the edits of a replay, as numbers, until they become one block at the end of the step.

An edit refers to rows by their places in a pool. The pool starts with the rows of the step. A row that the step did not
touch is only noted; such rows are fetched from the arrangement together, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headwater.engine.emissions.block import Edit, FewEdits
from headwater.engine.emissions.outbox import Outbox
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.windows.ordered.step_rows import StepRows
from headwater.engine.windows.template_program import looks
from headwater.engine.windows.visibility import Look
from headwater.engine.windows.window import Window, WindowGroup

_FETCHED = 1 << 40  # a place in the rows fetched at the end


@dataclass(slots=True)
class EditList:
    """`fetched` are rows by key hash and identity."""

    rows: StepRows
    arrangement: Arrangement
    edits: list[Edit] = field(default_factory=list)
    fetched: list[tuple[int, int]] = field(default_factory=list)
    _pools: list[pa.RecordBatch] = field(default_factory=list)
    _pooled: int = 0

    def __post_init__(self) -> None:
        self.pool(self.rows.seen.pool)

    def pool(self, rows: pa.RecordBatch) -> int:
        """Adds rows to the pool; the place of the first is returned."""
        base = self._pooled
        self._pools.append(rows)
        self._pooled += rows.num_rows
        return base

    def add(self, window: Window, *edit: int) -> None:
        self.edits.append((window.instance.id, *edit))  # type: ignore[arg-type]

    def ref(self, group: WindowGroup, id: int) -> int:
        """The place of the row with this identity: in this step's rows, or among the fetched."""
        row = self.rows.latest_of(id)
        if row is not None:
            return self.rows.place_of(row)
        self.fetched.append((self.arrangement.hash(group.bucket), id))
        return _FETCHED + len(self.fetched) - 1

    def looks(self, refs: list[int]) -> list[Look | None]:
        """Rows as they are shown, by their places in this step's rows or among the fetched; None for no row."""
        near = [ref for ref in refs if 0 <= ref < _FETCHED]
        far = [self.fetched[ref - _FETCHED] for ref in refs if ref >= _FETCHED]
        here = iter(looks(self._pools[0].take(pa.array(near))) if near else ())
        there = iter(looks(self.rows.program.project(self.arrangement.find(far))) if far else ())
        return [None if ref < 0 else next(there if ref >= _FETCHED else here) for ref in refs]

    def finish(self, outbox: Outbox) -> None:
        """Fetches what is missing, and puts everything into the outbox."""
        if not self.edits:
            return
        program = self.rows.program
        if self.fetched:
            base = self.pool(program.project(self.arrangement.find(self.fetched)))
            self.edits = [(*edit[:7], _resolved(edit[7], base), _resolved(edit[8], base)) for edit in self.edits]
        pool = self._pools[0] if len(self._pools) == 1 else pa.concat_batches(self._pools)
        outbox.add(program.template.id, FewEdits(self.edits, pool, program.types))


def _resolved(ref: int, base: int) -> int:
    return ref - _FETCHED + base if ref >= _FETCHED else ref
