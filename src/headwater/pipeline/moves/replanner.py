"""Decides when the joins of a relation are planned anew: where cells report that estimates were wrong by ten times.

It looks at a relation again only after so many transactions, twice as many each time. What is chosen is logged; cells
never decide.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from headwater.model.limits import Limits
from headwater.pipeline.activation.activator import Activator
from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.activation.replan import replan
from headwater.pipeline.template_usage import TemplateUsage
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.template import Template

_LOOKS_MAX = 10  # a relation that was looked at so often waits as long as it ever does
_log = logging.getLogger("headwater.moves")


@dataclass(slots=True)
class Estimate:
    """Of the worst join of a relation, as last reported; and the transactions since the relation was last looked at."""

    expected: int = 0
    counted: int = 0
    transactions: int = 0
    looks: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.expected != self.counted

    @property
    def told(self) -> str:
        return f"a join was expected to have {self.expected:,} rows and has {self.counted:,}"


class Replanner:
    """Safe to use from several threads. `chooses` is false where an order of joins is forced."""

    def __init__(self, activator: Activator, turns: KeyedLock, usage: TemplateUsage, *, chooses: bool) -> None:
        self._activator, self._turns, self._usage, self._chooses = activator, turns, usage, chooses
        self._estimates: dict[str, Estimate] = {}
        self._lock = threading.Lock()

    def reported(self, relation: str, transactions: int, expected: int = 0, counted: int = 0) -> None:
        """A cell has stepped it so often; with both numbers where an estimate was wrong."""
        if self._chooses and relation in self._activator.catalog.plans:
            with self._lock:
                one = self._estimates.setdefault(relation, Estimate())
                one.transactions += transactions
                one.expected, one.counted = expected, counted

    def due(self, limits: Limits) -> list[tuple[str, str]]:
        """The relations to look at now, with the reason."""
        found: list[tuple[str, str]] = []
        with self._lock:
            plans = self._activator.catalog.plans
            self._estimates = {name: one for name, one in self._estimates.items() if name in plans}
            for relation, one in self._estimates.items():
                enough = limits.replan_transactions_min << min(one.looks, _LOOKS_MAX)
                if one.is_wrong and one.transactions >= enough:
                    found.append((relation, one.told))
                    self._estimates[relation] = Estimate(looks=one.looks + 1)
        return found

    def look(self, relation: str, reason: str, forced: JoinOrder | None = None) -> bool:
        """Whether its joins run in another order from now on."""
        with self._turns.of(relation):
            template = self._template(relation)
            changed = template is not None and replan(self._activator, template, reason, forced)
        if changed:
            _log.info("the joins of %s run in another order from now on: %s", relation, reason)
        else:
            _log.debug("the joins of %s stay in their order: %s", relation, reason)
        return changed

    def _template(self, relation: str) -> Template | None:
        """One of those that are followed by it and have subscribers."""
        known = list(self._activator.catalog.templates.items())
        over = (self._usage.template(id) for id, one in known if one.table == relation and one.arranged is not None)
        return next((template for template in over if template is not None), None)
