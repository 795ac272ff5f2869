"""What a dialect knows of a column or a cast, beside the type of its values: SQLite's affinity, PostgreSQL's kind."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class SqlType(Hashable, Protocol):
    """Made and read by its dialect alone. `str()` of it is stable: names of relations are made of it."""

    @property
    def dialect(self) -> str:
        """The name of the dialect that it belongs to."""
