"""What SQLite said of a question, as the values that every source gives. Nothing here asks it."""

from __future__ import annotations

from typing import Any

from headwater.sources.source import Answer, Reads
from headwater.sources.sqlite.questions.question import Described


def answer_of(position: int, columns: Any, *batches: Any) -> Answer:
    """All of it was read in one transaction."""
    return Answer(tuple(columns), [row for batch in batches for row in batch], position)


def reads_of(described: Described) -> Reads:
    names, columns, functions, row_by_row = described
    tables = {name: frozenset(read) for name, read in columns.items()}
    return Reads(tuple(names), tables, frozenset(functions), row_by_row)
