"""Window: the result of one instance as the engine maintains it; WindowGroup: windows of a template over the same rows.

The numbers that a step reads for many of them at once are in arrays, by slot; the objects read and write theirs there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.engine.ranges.ranges import Wanted
from headwater.engine.ranking.rank import LimitRange, Ranked
from headwater.engine.windows.shown_hashes import NO_NAMES, ShownHashes
from headwater.engine.windows.slot_array import Slots
from headwater.plan.template import Instance

BY_RELATION = 0  # a key of `WindowGroup.failed`
WINDOW = np.dtype([("instance", np.int64), ("seq", np.int64), ("prev", np.int64), ("unsaved", np.bool_)])
KEY_BYTES_MAX = 32  # a longer key is found by its bytes alone
GROUP = np.dtype(
    [
        ("size", np.int64),
        ("window", np.int64),
        ("hash", np.uint64),
        ("by_turns", np.bool_),
        ("key", f"S{KEY_BYTES_MAX}"),
    ]
)
SEVERAL = -1  # in place of a window: the group has none, or more than one


@dataclass(slots=True, eq=False)
class Window:
    """`seq` and `prev` are the tx of its last emission and of the one before. `names` are those of rows that are shown
    under another name than their identity."""

    instance: Instance
    group: WindowGroup
    frame: LimitRange
    slots: Slots
    slot: int
    names: ShownHashes = NO_NAMES

    @property
    def seq(self) -> int:
        return int(self.slots.records["seq"][self.slot])

    @seq.setter
    def seq(self, tx: int) -> None:
        self.slots.records["seq"][self.slot] = tx
        self.note()

    @property
    def prev(self) -> int:
        return int(self.slots.records["prev"][self.slot])

    @prev.setter
    def prev(self, tx: int) -> None:
        self.slots.records["prev"][self.slot] = tx

    def note(self) -> None:
        """Marks it as changed since it was saved."""
        self.slots.records["unsaved"][self.slot] = True

    @property
    def rows(self) -> int:
        """How many rows the window shows."""
        return min(max(self.group.size - self.frame.start, 0), self.frame.end - self.frame.start)


@dataclass(slots=True, eq=False)
class WindowGroup:
    """The windows of a template that see the same rows: equal values, perhaps different frames.

    `failed` holds why rows could not be evaluated, by identity; while there is an entry the windows are in error.
    `BY_RELATION`, which no row has as its identity, holds the reason of a failure in the relation beneath. `ranked` is
    kept where the template is ordered; `size` is the number of rows before any frame.

    `bucket` is the encoding of its keys, by which its rows are arranged; `wanted` what else it asks for. `key` is both.
    """

    template: str
    key: bytes
    bucket: bytes
    wanted: Wanted | None
    slots: Slots
    slot: int
    windows: list[Window] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    ranked: Ranked | None = None

    @property
    def size(self) -> int:
        return int(self.slots.records["size"][self.slot])

    @size.setter
    def size(self, rows: int) -> None:
        self.slots.records["size"][self.slot] = rows

    @property
    def by_turns(self) -> bool:
        """Whether its transactions must be stepped one by one: a row fails, or is shown under another name."""
        return bool(self.failed) or any(window.names.kept for window in self.windows)

    @property
    def error(self) -> str:
        """One reason, independent of the order in which rows came."""
        return self.failed[min(self.failed)] if self.failed else ""

    def note(self) -> None:
        """Writes `by_turns`, and the window if there is only one, into the arrays that a step reads."""
        self.slots.records["by_turns"][self.slot] = self.by_turns
        self.slots.records["window"][self.slot] = self.windows[0].slot if len(self.windows) == 1 else SEVERAL
