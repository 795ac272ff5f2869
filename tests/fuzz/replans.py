"""Relations whose joins are planned anew at random places of a case: what is emitted must not depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headwater.plan.join_order.random_order import random_order
from headwater.plan.template import Template
from tests.fuzz.case import Case, Commit, Rows
from tests.fuzz.check import Running, Wrong, plans_of

_SHARE = 0.4  # of the commits


@dataclass(slots=True)
class Replanned(Running):
    """After some commits every relation gets another order; `replans` counts them."""

    seed: int = 0
    replans: int = 0

    def _commit(self, place: int, commit: Commit, rows: Rows) -> None:
        Running._commit(self, place, commit, rows)
        if Random(f"{self.seed} {place}").random() < _SHARE:
            self._step()
            templates = {one.template.id: one.template for one in self.current.values() if one is not None}
            for template in templates.values():
                self._replan(template, place, rows)

    def _replan(self, template: Template, place: int, rows: Rows) -> None:
        if template.relation is None:
            return
        order = random_order(template.relation, Random(f"{self.seed} {place} {template.table}"))
        for flow in self.flows if order is not None else ():
            assert order is not None
            flow.replan(template, order, self._whole(rows) if flow.lacks_rows(template) else None)
            self.replans += 1


def check_replans(case: Case, directory: Path, seeds: Sequence[int] = (1, 2)) -> int:
    """However often the order of joins changes on the way, what is emitted is the same to the byte. How often it
    did."""
    plans, replans = plans_of(case), 0
    written = Running(case, plans, directory, case.cut).run()
    for seed in seeds:
        running = Replanned(case, plans, directory, case.cut, evicts=seed % 2 == 0, seed=seed)
        if running.run() != written:
            raise Wrong(f"joins planned anew by seed {seed} emit differently")
        replans += running.replans
    return replans
