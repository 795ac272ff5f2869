"""Leases: the boot that each window of a cell belongs to. A window that no later boot claims ends.

On disk they are a changelog: a manifest writes those that changed. This module never ends a window itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog

_BYTES = 8


class Leases:
    def __init__(self) -> None:
        self._boots: dict[int, int] = {}
        self._saved = Changelog(Work())

    def grant(self, instance: int, boot: int) -> None:
        if self._boots.get(instance) != boot:
            self._boots[instance] = boot
            self._saved.note(instance)

    def end(self, instance: int) -> None:
        if self._boots.pop(instance, None) is not None:
            self._saved.note(instance)
            if not self._boots:
                self._boots.clear()  # which lets go of the room for those that were there

    def before(self, boot: int) -> list[int]:
        """The windows of earlier boots."""
        return [instance for instance, lease in self._boots.items() if lease < boot]

    def save(self, directory: Path) -> list[str]:
        """The names of its files, each durable."""
        return self._saved.save(self._packed, directory)

    def _packed(self, instance: int) -> bytes | None:
        boot = self._boots.get(instance)
        return None if boot is None else boot.to_bytes(_BYTES, "big")

    @classmethod
    def load(cls, directory: Path, files: Iterable[str]) -> Self:
        leases = cls()
        for instance, packed in leases._saved.load(directory, files):
            leases._boots[instance] = int.from_bytes(packed, "big")
        return leases
