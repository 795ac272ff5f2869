"""The strategy that the windows of a template have now, or had at a place in the log.

A plan says what a query could be; this says what its windows are. It never decides, and logs nothing.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from headwater.pipeline.data_dir.catalog import Catalog, MovedTemplate
from headwater.plan.planner import Planned
from headwater.plan.strategy import INCREMENTAL

_PAST_MAX = 16  # moves of a template that are remembered: readers of its cells are not further behind


class CurrentStrategies:
    """`lock` is held while a move is logged, and while subscriptions are: each has the strategy of its place."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._past: dict[str, list[tuple[int, MovedTemplate | None]]] = {}
        self.lock = threading.RLock()

    def note(self, template: str, before: MovedTemplate | None, tx: int, after: MovedTemplate | None) -> None:
        """A move was logged. Under the lock."""
        past = self._past.setdefault(template, [(0, before)])
        past.append((tx, after))
        del past[:-_PAST_MAX]

    def begin(self, template: str, tx: int) -> None:
        """A window of it begins. A template that ended since it was moved begins anew as it was planned: from here on
        it was never moved. Under the lock."""
        past, moved = self._past.get(template), self._catalog.moved.get(template)
        if past is not None and past[-1][1] is not None and moved is None:
            self.note(template, None, tx, None)

    def at(self, planned: Planned, tx: int | None = None) -> Planned:
        """The plan with the strategy of its windows now; or, for who has read its cell up to `tx`, there."""
        past = self._past.get(planned.template.id, ())
        known = [moved for since, moved in past if tx is not None and since <= tx]
        return moved_to(planned, known[-1] if known else self._catalog.moved.get(planned.template.id))


def moved_to(planned: Planned, moved: MovedTemplate | None) -> Planned:
    if moved is not None:
        return replace(planned, strategy=moved.strategy, moved=moved.reason)
    return replace(planned, strategy=INCREMENTAL, moved="") if planned.moved else planned
