"""A moment of an SQLite database: several questions at one position, asked of a process that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.sources.cancellation import Cancellation
from headwater.sources.source import Answer, Params
from headwater.sources.sqlite.questions.pool import QuestionProcess
from headwater.sources.sqlite.questions.replies import answer_of


@dataclass(frozen=True, slots=True)
class SqliteMoment:
    """A read transaction in a process of its own."""

    process: QuestionProcess
    position: int

    def query(self, sql: str, params: Params = (), cancellation: Cancellation | None = None) -> Answer | None:
        return answer_of(*self.process.ask(cancellation or Cancellation(), "ask", sql, plain(params)))


def plain(params: Params) -> Any:
    """As they are sent to a process."""
    return dict(params) if isinstance(params, Mapping) else tuple(params)
