"""Case after case: what was checked and covered, and each failure made small and kept as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table as Shown

from tests.fuzz.case import Case, write
from tests.fuzz.check import Report, Wrong, check, check_cuts, check_orders
from tests.fuzz.demand.invent import demanded_case
from tests.fuzz.invent import invented
from tests.fuzz.shrink import shrunk

KEPT = Path(__file__).parent.parent / "regressions" / "fuzz"
CUTS_EVERY = 8


@dataclass(slots=True)
class Campaign:
    """`keep` is where failures go; `cuts_every` how often a case is also run in steps of other sizes, in another order
    of its joins, and with state that leaves memory; `demand_every` how often subscribers come and go all the time."""

    keep: Path = KEPT
    cuts_every: int = CUTS_EVERY
    demand_every: int | None = None
    queries: int = 10
    commits: int = 60
    total: Report = field(default_factory=Report)
    cases: int = 0
    cut_cases: int = 0
    failures: list[Path] = field(default_factory=list)

    def run(self, seed: int) -> None:
        """One case; a failure is written down, and the campaign goes on."""
        asks = self.demand_every is not None and seed % self.demand_every == 0
        case = demanded_case(seed) if asks else invented(seed, self.queries, self.commits)
        cuts = seed % self.cuts_every == 0
        report, _ = examined(case, cuts)
        self.cases += 1
        self.cut_cases += cuts
        if report is not None:
            self.total += report
        else:
            small = shrunk(case, lambda each: kind_of(examined(each, cuts)[1]))
            path = self.keep / f"seed-{seed}.json"
            write(small, path, examined(small, cuts)[1])
            self.failures.append(path)

    @property
    def incremental(self) -> float:
        return 1 - self.total.refused / max(1, self.total.queries)

    @property
    def lively(self) -> float:
        return self.total.changed / max(1, self.total.checks)

    @property
    def blind(self) -> float:
        """The share of transactions at which a query had no answer."""
        lost = self.total.lost.total()
        return lost / max(1, lost + self.total.checks)

    def summary(self) -> str:
        total = self.total
        return (
            f"{self.cases} cases, {total.queries} queries ({self.incremental:.0%} incremental), {total.checks} checks "
            f"({self.lively:.0%} with a diff), {self.cut_cases} cases cut three ways, {len(self.failures)} failures; "
            f"{total.answered} checks of queries that the origin answers, "
            f"{total.rounded} times SQLite's own sum was rounded otherwise, "
            f"nothing to compare at {self.blind:.1%} of the transactions {dict(total.lost)}"
        )

    def table(self) -> Shown:
        shown = Shown("what", "queries", "what ", "queries ", title=self.summary(), title_justify="left")
        pairs = [(name, str(count)) for name, count in sorted(self.total.seen.items())]
        half = (len(pairs) + 1) // 2
        for place, left in enumerate(pairs[:half]):
            shown.add_row(*left, *(pairs[half + place] if half + place < len(pairs) else ("", "")))
        return shown


def examined(case: Case, cuts: bool) -> tuple[Report | None, str]:
    """The report, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="headwater-fuzz-") as name:
        try:
            report = check(case, Path(name))
            if cuts:
                check_cuts(case, Path(name))
                check_orders(case, Path(name), (1,))
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        return report, ""


def replayed(case: Case) -> Report:
    """As it failed once; raises if it fails again."""
    report, reason = examined(case, cuts=True)
    if report is None:
        raise Wrong(reason)
    return report


def kind_of(reason: str) -> str | None:
    """What stays the same while a case shrinks: the words, not the numbers and rows."""
    words = reason.split("\n")[0].split(": ")
    head = ": ".join(words[:1] if words[0] != "Wrong" else words[:3])
    return "".join(c for c in head if not c.isdigit()).split("expected")[0][:80] or None


def seeds(first: int) -> Iterable[int]:
    while True:
        yield first
        first += 1
