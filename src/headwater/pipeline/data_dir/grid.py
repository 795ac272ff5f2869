"""The grid: Q query partitions by W write partitions. A cell is one square of it; its number names its directory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.model.errors import HeadwaterError


@dataclass(frozen=True, slots=True)
class Grid:
    queries: int = 1
    writes: int = 1

    @classmethod
    def parse(cls, text: str) -> Grid:
        """From `QxW`, as `--cells` takes it."""
        match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip())
        if match is None:
            raise HeadwaterError(f"expected cells as QxW, found {text!r}", hint="for example --cells 2x1")
        return cls(int(match[1]), int(match[2] or 1)).checked()

    def checked(self) -> Grid:
        if not 1 <= self.queries <= 1024:
            raise HeadwaterError(f"expected 1 to 1024 query partitions, found {self.queries}", hint="try --cells 2x1")
        if self.writes != 1:
            raise HeadwaterError(
                f"expected one write partition, found {self.writes}",
                hint=f"more than one is not supported yet; use --cells {self.queries}x1",
            )
        return self

    @property
    def cells(self) -> int:
        return self.queries * self.writes

    def partition(self, cell: int) -> tuple[int, int]:
        """The (query, write) partition of a cell."""
        return cell // self.writes, cell % self.writes

    def __str__(self) -> str:
        return f"{self.queries}x{self.writes}"
