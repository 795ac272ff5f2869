"""Outbox: what the engine emitted since the last `take`: an index of emissions, and the edits of each template."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.engine.emissions.block import Block, FewEdits
from headwater.engine.emissions.edits import edits_of
from headwater.engine.emissions.index import Entry, Index


@dataclass(frozen=True, slots=True)
class EmissionBatch:
    """Sorted by tx, then instance."""

    index: Index
    edits: dict[str, pa.RecordBatch]


@dataclass(slots=True)
class Outbox:
    """What was emitted since the last take: one by one, or many at once."""

    index: list[Entry] = field(default_factory=list)
    many: list[Index] = field(default_factory=list)
    whole: set[tuple[int, int]] = field(default_factory=set)  # (instance, tx) of the results in it
    blocks: dict[str, list[Block | FewEdits]] = field(default_factory=lambda: defaultdict(list))
    added: int = 0  # edits, ever

    def add(self, template: str, edits: Block | FewEdits) -> None:
        if count := len(edits):
            self.blocks[template].append(edits)
            self.added += count

    def take(self) -> EmissionBatch:
        index, blocks = Index.together(self.many, self.index), self.blocks
        self.index, self.many, self.whole, self.blocks = [], [], set(), defaultdict(list)
        return EmissionBatch(index, {template: edits_of(parts) for template, parts in sorted(blocks.items()) if parts})
