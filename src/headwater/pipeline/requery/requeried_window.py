"""A window that the source answers: its last answer, and what has changed since. It queries nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from headwater.model.change import Change
from headwater.model.schema import Table
from headwater.pipeline.requery.dirty_keys import DirtyKeys
from headwater.pipeline.requery.key_renames import KeyRenames
from headwater.plan.requery_by_key import Unmapped
from headwater.plan.requery_whole import Requeried, touches
from headwater.sources.cancellation import Cancellation


@dataclass(slots=True)
class RequeriedWindow:
    """`dirty` when a question is due, `asking` while one is under way, which ends by `cancellation`; not before
    `retry_s` where the last one failed. `client` is who asked for it first. `slow`: its questions take their time.
    `unsure`: it must be learned first what the query reads. `logging` is held while an answer is logged.

    The window is right through `position` once its cell is past `offset`. `rows` is how many it has at most. `spent_s`
    is what questions for it took, and `transactions` how many concerned it, since that was last weighed.
    """

    query: Requeried
    touched: DirtyKeys
    renames: KeyRenames
    client: int = 0
    dirty: bool = True
    asking: bool = False
    unsure: bool = False
    slow: bool = False
    retry_s: float = 0.0
    position: int = -1
    offset: int = -1
    rows: int = 0
    spent_s: float = 0.0
    transactions: int = 0
    counted_at: int = -1
    cancellation: Cancellation = field(default_factory=Cancellation)
    logging: threading.Lock = field(default_factory=threading.Lock)

    @property
    def in_parts(self) -> bool:
        return self.query.selection is not None and self.offset >= 0 and not self.touched.needs_whole

    def may_join(self, other: RequeriedWindow) -> bool:
        """Whether both may be asked for as one question: instances of one template, quick, and whole."""
        return not self.slow and not self.in_parts and self.query.template == other.query.template

    def changed(self, position: int, table: Table, change: Change) -> bool:
        """Whether it is dirty now, and was not before."""
        if position != self.counted_at:
            self.counted_at = position
            self.transactions += 1
        selection, was_dirty = self.query.selection, self.dirty
        if was_dirty and selection is None:
            return False
        if not touches(self.query.mask, change.table, table.names, change.old, change.new):
            return False
        self.dirty = True
        if selection is not None:
            if change.table in selection.keys:
                self.renames.note(position, table, change)
            try:
                self.touched.note(position, list(selection.wanted(table, change)))
            except Unmapped:
                self.touched.note_whole(position)
        return not was_dirty
