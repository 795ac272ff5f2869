"""What a client was told, checked at every commit against PostgreSQL, told the same.

A query that we maintain is checked at each commit; one that the origin answers, at each position it was answered.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.model.emission import Emission, State
from headwater.plan.planner import effective_sql
from headwater.plan.requery_whole import has_order
from tests.fuzz.check import Report, Wrong
from tests.fuzz.living import Watched
from tests.fuzz.postgres.case import Query
from tests.fuzz.postgres.living import Life
from tests.fuzz.postgres.oracle import answer, contents, exactly, repeat, roughly
from tests.fuzz.postgres.writers import Connection, fill
from tests.fuzz.tally import operators
from tests.support.oracle import applied

RAISES = "PostgreSQL raises"
FAILED = "we say that PostgreSQL raises"
LAX = "PostgreSQL raises, we do not"
_RAISED = re.compile(r"out of range|by zero|more than one row|cannot convert|cannot subtract infinite")


def witnessed(life: Life, scratch: Connection) -> Report:
    """Raises `Wrong`."""
    for query, one in life.watched:
        strange = [reason for reason in one.troubles if not _RAISED.search(reason)]
        if strange:
            raise Wrong(f"in trouble, where PostgreSQL is not\n{query.sql} {query.params}\n{strange}")
    kept = [one.planned for _, one in life.watched if one.planned is not None]
    seen = Counter(name for planned in kept for name in operators(planned))
    asked = len(life.watched) - len(kept) if life.case.strategies is None else 0
    report = Report(queries=len(kept) + asked, refused=asked, seen=seen)
    followers = [Follower(query, watched, report) for query, watched in life.watched]
    fill(scratch, life.case)
    order = list(life.journal)
    if sorted(order, key=life.positions.__getitem__) != order:
        raise Wrong("another order of commits than the server's")
    for follower in followers:
        follower.begin(life.positions[order[0]] if order else math.inf, scratch)
    refused = _still_refused(life.refused, scratch)
    for xid, after in zip(order, [*order[1:], None], strict=True):
        repeat(scratch, life.journal[xid])
        refused = _still_refused(refused, scratch)
        until = math.inf if after is None else life.positions[after]
        for follower in followers:
            follower.follow(life.positions[xid], until, scratch)
    if contents(scratch, life.case) != life.ended:
        raise AssertionError("the journal leads elsewhere than the transactions did")
    for query, reason in refused.items():
        raise Wrong(f"refused, where PostgreSQL answers\n{query.sql} {query.params}: {reason}")
    return report


def _still_refused(refused: Mapping[Query, str], scratch: Connection) -> dict[Query, str]:
    """Without those for which PostgreSQL has an error here: it may have had it when it was asked."""
    return {query: reason for query, reason in refused.items() if answer(scratch, query) is not None}


@dataclass(slots=True)
class Follower:
    """Holds a result only by applying what was told. `left` are the emissions still to come, by position."""

    query: Query
    watched: Watched
    report: Report
    state: State = field(init=False)
    left: dict[int, Emission] = field(init=False)
    asked: Query = field(init=False)
    ordered: bool = field(init=False)
    shown: Callable[[Any], str] = field(init=False)
    before: list[str] | None = None

    def __post_init__(self) -> None:
        watched, planned = self.watched, self.watched.planned
        self.state = watched.first
        self.left = watched.told()
        self.asked = self.query if planned is None else Query(effective_sql(planned.template, planned.instance))
        self.ordered = planned is not None and planned.template.ordered
        self.shown = roughly if planned is None else exactly

    def begin(self, first: float, scratch: Connection) -> None:
        """Before the first commit."""
        if self.watched.began < first:
            self._compare(scratch, "before the first commit")

    def follow(self, position: int, after: float, scratch: Connection) -> None:
        """The rows are those of the commit at `position`, until the one at `after`; or until it had to begin again."""
        until = self.watched.until
        if until is not None and position > until:
            return
        if self.watched.planned is None:
            self._follow_answers(position, after, scratch)
        elif position >= self.watched.began:
            has_diff = position in self.left
            self._take(position)
            self._check(scratch, position, has_diff)

    def _follow_answers(self, position: int, after: float, scratch: Connection) -> None:
        began = position <= self.watched.began < after
        answered = [each for each in self.left if each < after]
        for each in answered:
            self._take(each)
        if (answered or began) and self.query.certain:
            self._compare(scratch, f"answered at {self.state.position}")
            self.report.answered += 1

    def _take(self, position: int) -> None:
        if position in self.left:
            ordered = self.ordered or has_order(self.query.sql)
            self.state = applied(self.state, self.left.pop(position), ordered)
        early = [each for each in self.left if each < position]
        if early:
            raise Wrong(f"an emission where nothing was committed\n{self.watched.sql}\n{early}")

    def _check(self, scratch: Connection, position: int, has_diff: bool) -> None:
        found = self._compare(scratch, f"at {position}")
        if found is not None:
            self.report.checks += 1
            self.report.changed += has_diff if self.before is None else self.before != found
            self.before = found

    def _compare(self, scratch: Connection, when: str) -> list[str] | None:
        """PostgreSQL's answer; None where there is none to compare with."""
        rows = answer(scratch, self.asked)
        if rows is None:
            self.report.lost[RAISES if self.watched.troubles else LAX] += 1
            return None
        expected = self._listed([self.shown(row) for row in rows])
        found = self._listed([self.shown(tuple(row.values())) for row in self.state.rows])
        if found == expected:
            return expected
        if not self.watched.troubles:
            raise Wrong(f"expected otherwise\n{self._told(when)}\nexpected {expected}\n   found {found}")
        self.report.lost[FAILED] += 1
        return None

    def _told(self, when: str) -> str:
        effective = f"\n{self.asked.sql}" if self.watched.planned is not None else "\n(answered by the origin)"
        return f"{self.query.sql} {self.query.params}{effective}\n{when}"

    def _listed(self, rows: list[str]) -> list[str]:
        return rows if self.ordered else sorted(rows)
