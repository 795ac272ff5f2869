"""What SQLite said of a question, as the values that every source gives. Nothing here asks it."""

from __future__ import annotations

from typing import Any

from headwater.sources.source import Answer, Reads
from headwater.sources.sqlite.questions.question import Described


def answer_of(position: int, columns: Any, *batches: Any) -> Answer:
    """All of it was read in one transaction."""
    return Answer(tuple(columns), [row for batch in batches for row in batch], position)


def answers_of(position: int, *replies: Any) -> list[Answer]:
    """To several questions: the columns of each are a tuple, and lists of rows follow them."""
    answers = list[Answer]()
    for reply in replies:
        if isinstance(reply, tuple):
            answers.append(Answer(reply, [], position))
        else:
            answers[-1].rows.extend(reply)
    return answers


def reads_of(described: Described) -> Reads:
    names, columns, functions, is_scalar, names_view = described
    tables = {name: frozenset(read) for name, read in columns.items()}
    row_by_row = is_scalar and not names_view
    return Reads(tuple(names), tables, frozenset(functions), row_by_row, sees_through=names_view)
