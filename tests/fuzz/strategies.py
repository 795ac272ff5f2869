"""Strategies drawn at random among those that can serve a query: what its subscribers see must not depend on them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from headwater.model.errors import UnsupportedQuery
from headwater.pipeline.planning import strategy
from headwater.plan.planner import plan
from headwater.sql.outline.tokens import NoOutline

# Asked twice, a database may choose other rows, or round otherwise.
_UNCERTAIN = re.compile(r"\b(limit|offset|sum|avg|total|group_concat|string_agg|array_agg|journal)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RandomStrategies:
    """The same text has the same strategy."""

    seed: int

    def __call__(self, sql: str) -> str:
        """The first of the three that may be taken."""
        if _UNCERTAIN.search(sql):
            return "incremental"
        return Random(f"{self.seed} {sql}").choice(("incremental", "incremental", "selective", "requery"))


@contextlib.contextmanager
def drawn_strategies(seed: int) -> Iterator[None]:
    """For every query that is planned meanwhile, in this process."""
    first, selected = RandomStrategies(seed), strategy._selected

    def planned(sql: str, *rest: Any) -> Any:
        if first(sql) != "incremental":
            raise UnsupportedQuery("another strategy was drawn", sql=sql)
        return plan(sql, *rest)

    def chosen(source: Any, tables: Any, sql: str, *rest: Any) -> Any:
        if first(sql) == "requery":
            raise NoOutline("another strategy was drawn")
        return selected(source, tables, sql, *rest)

    with patch.object(strategy, "plan", planned), patch.object(strategy, "_selected", chosen):
        yield
