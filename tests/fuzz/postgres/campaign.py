"""Case after case on real servers: what was checked and covered, and each failure made small and kept as a file."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.check import Report, Wrong
from tests.fuzz.postgres.case import Case, write
from tests.fuzz.postgres.invent import invented
from tests.fuzz.postgres.living import Life
from tests.fuzz.postgres.shrink import repeated, shrunk
from tests.fuzz.postgres.staging import Stage
from tests.fuzz.postgres.witness import witnessed
from tests.fuzz.tally import OPERATORS as EVERY
from tests.support.postgres import Postgres

OPERATORS = EVERY - {"values", "total", "group_concat", "list"} | {"intersect all", "except all"}
KEPT = Path(__file__).parent.parent.parent / "regressions" / "fuzz_postgres"


@dataclass(slots=True)
class PostgresCampaign(Campaign):
    """`servers` are taken in turn. `covering` are the kinds of operators that are to be seen, as soon as chance offers
    them; `counts` tell what became of transactions and actions."""

    keep: Path = KEPT
    queries: int = 16
    commits: int = 12
    servers: Sequence[Postgres] = ()
    covering: frozenset[str] = OPERATORS
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int) -> None:
        """One case; a failure is written down, and the campaign goes on."""
        server = self.servers[seed % len(self.servers)]
        case = drawn(seed, server, self.queries, self.commits, self.covering - self.total.seen.keys())
        report, reason, life = examined(case, server)
        self.cases += 1
        self.counts += life.counts
        if report is not None:
            self.total += report
            return
        path = self.keep / f"seed-{seed}.json"
        small, reason = _small(case, life, server, reason)
        write(small, path, reason)
        self.failures.append(path)

    def summary(self) -> str:
        total = self.total
        return (
            f"{self.cases} cases, {total.queries} queries ({self.incremental:.0%} incremental), {total.checks} checks "
            f"({self.lively:.0%} with a diff), {len(self.failures)} failures; {total.answered} checks of queries that "
            f"the origin answers, nothing to compare at {self.blind:.1%} of the commits {dict(total.lost)}; "
            f"{dict(self.counts)}"
        )


def drawn(seed: int, server: Postgres, queries: int, transactions: int, covering: Collection[str] = ()) -> Case:
    with server.database() as database, server.connect(database) as scratch:
        return invented(seed, Stage(scratch, server.url(database), covering), queries, transactions)


def examined(case: Case, server: Postgres) -> tuple[Report | None, str, Life]:
    """The report, or why there is none; and what happened."""
    life = Life(case)
    with (
        tempfile.TemporaryDirectory(prefix="headwater-fuzz-") as directory,
        server.database() as database,
        server.database() as other,
    ):
        try:
            life.live(server, database, Path(directory))
            with server.connect(other) as scratch:
                return witnessed(life, scratch), "", life
        except Exception as error:
            return None, f"{type(error).__name__}: {error}", life


def replayed(case: Case, server: Postgres) -> Report:
    """As it failed once; raises if it fails again."""
    report, reason, _ = examined(case, server)
    if report is None:
        raise Wrong(reason)
    return report


def kind_of(reason: str) -> str | None:
    """What stays the same while a case shrinks: the first line, without its numbers."""
    return "".join(c for c in reason.split("\n")[0] if not c.isdigit())[:80] or None


def _small(case: Case, life: Life, server: Postgres, reason: str) -> tuple[Case, str]:
    """One connection that repeats the journal, if that fails as well; else all four, as they were."""

    def fails(each: Case) -> str | None:
        return kind_of(examined(each, server)[1])

    alone = repeated(case, life.journal)
    if fails(alone) != kind_of(reason):
        return case, reason
    small = shrunk(alone, fails)
    return small, examined(small, server)[1] or reason
