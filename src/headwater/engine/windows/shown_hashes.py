"""ShownHashes: the hashes under which the rows of a window are shown, where that is not their identity.

A row of a table without a key keeps its name while it looks the same (`keyless_rows.py`), though its identity, which is
made of all its values, has changed. So do the rows of a window that looks as before, though their keys have changed
(`visibility.py`): with its next emitted change, a row takes its own identity as its name. No two rows ever share a
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.engine.windows.row_identity import ordinal_hash


@dataclass(slots=True, eq=False)
class ShownHashes:
    """The names under which rows are shown, by identity; most rows are shown under their identity and are not here."""

    kept: dict[int, int] = field(default_factory=dict)
    _holders: dict[int, int] = field(default_factory=dict)  # the other way round

    def __post_init__(self) -> None:
        self._holders.update((name, id) for id, name in self.kept.items())

    def of(self, id: int) -> int:
        return self.kept.get(id, id)

    def holder(self, name: int) -> int:
        """The identity of the row that is shown under a name."""
        return self._holders.get(name, name)

    def turn(self, stayed: Sequence[tuple[int, int]], gone: Sequence[int], came: Sequence[int]) -> dict[int, int]:
        """One transaction: `stayed` leads from the identity before to the one after. The names before are returned."""
        before = {id: self.of(id) for id in (*(old for old, _ in stayed), *gone)}
        for id in before:
            self._drop(id)
        for old, new in stayed:
            self._keep(new, before[old])
        leaving = set(before.values())  # nobody takes a name in the transaction that frees it
        for id in came:
            self._keep(id, self._free(id, leaving))
        return before

    def assign(self, names: Mapping[int, int]) -> None:
        """Names by identity, which these rows, or rows that left, had among them before."""
        for id in names:
            self._drop(id)
        for id, name in names.items():
            self._keep(id, name)

    def _keep(self, id: int, name: int) -> None:
        if name != id:
            self.kept[id] = name
            self._holders[name] = id

    def _drop(self, id: int) -> None:
        self._holders.pop(self.kept.pop(id, id), None)

    def _free(self, id: int, leaving: set[int]) -> int:
        name = id
        while name in self._holders or name in leaving:
            name = ordinal_hash(name, 0)
        return name


NO_NAMES = ShownHashes()  # of all windows where every row is shown under its identity; never turned
