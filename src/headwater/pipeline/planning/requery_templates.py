"""What was learned of queries that the source answers, by their text: another instance of one costs no question.

What a query reads, and which strategy it has, does not depend on the values of its parameters, but on their types at
most; so texts are known with the types of their values. Whether a value makes a query volatile is looked at each time.
Safe to use from several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.plan.requery_whole import Requeried, another_instance
from headwater.sql.syntax.parameters import Given

_TEXTS_MAX = 4096  # then the oldest goes

Shape = tuple[Any, ...]
Known = dict[tuple[str, Shape], Requeried]


class RequeryTemplates:
    """Forget everything when a table, a view or a function changes."""

    def __init__(self) -> None:
        self.known: Known = {}

    def forget(self) -> None:
        self.known = {}

    def learn(self, known: Known, query: Requeried, given: Given) -> None:
        """Into what was known when the source was asked: if that was forgotten meanwhile, so is this."""
        while len(known) >= _TEXTS_MAX:
            known.pop(next(iter(known)), None)
        known[query.sql, _shape(given)] = query

    def knows(self, sql: str, given: Given) -> bool:
        return (sql, _shape(given)) in self.known

    def instance(self, sql: str, given: Given) -> Requeried | None:
        """Of a text that is known, for these values."""
        known = self.known.get((sql, _shape(given)))
        return None if known is None else another_instance(known, given)


def _shape(given: Given) -> Shape:
    if isinstance(given, Mapping):
        return tuple((name, type(given[name])) for name in sorted(given))
    return tuple(map(type, given))
