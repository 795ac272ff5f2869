"""What a client was told through a whole server, checked at every transaction against SQLite, told the same.

A query that we maintain is checked at each transaction; one that the origin answers, at each position it was answered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.model.emission import Emission, State
from headwater.plan.planner import effective_sql
from headwater.plan.requery_whole import has_order
from tests.fuzz.case import Commit
from tests.fuzz.check import OVERFLOW, RAISES, Report, Wrong, adds, listed
from tests.fuzz.living import Life, Watched, begun
from tests.fuzz.oracle import Oracle
from tests.fuzz.tally import operators
from tests.support.oracle import applied


def witnessed(life: Life) -> Report:
    """Raises `Wrong`."""
    kept = [one.planned for one in life.watched if one.planned is not None]
    seen = Counter(name for planned in kept for name in operators(planned))
    report = Report(queries=len(life.watched), refused=len(life.watched) - len(kept), seen=seen)
    followers = [Follower(watched, report) for watched in life.watched]
    positions = [*(life.positions[place] for place in sorted(life.positions)), math.inf]
    for number, (place, plain, exact) in enumerate(repeated(life)):
        for follower in followers:
            try:
                follower.follow(life.positions[place], positions[number + 1], plain, exact)
            except Exception as error:
                raise Wrong(f"{follower.watched.sql}\nevent {place}: {type(error).__name__} {error}") from error
    for follower in followers:
        if follower.left:
            raise Wrong(f"{follower.watched.sql}\nemissions where nothing was committed: {follower.left}")
    return report


def repeated(life: Life) -> Iterator[tuple[int, Oracle, Oracle]]:
    """The place of each commit, and SQLite as it was just after it; the second one has exact sums."""
    with Oracle(()) as plain, Oracle((), exact=True) as exact:
        for oracle in (plain, exact):
            oracle.run(begun(life.case))
        for place, statements in life.origin.written.items():
            for oracle in (plain, exact):
                oracle.run(statements)
            if isinstance(life.case.events[place], Commit):
                yield place, plain, exact


@dataclass(slots=True)
class Follower:
    """Holds a result only by applying what was told. `left` are the emissions still to come, by position."""

    watched: Watched
    report: Report
    state: State = field(init=False)
    left: dict[int, Emission] = field(init=False)
    sql: str = field(init=False)
    ordered: bool = field(init=False)
    before: list[str] | None = None

    def __post_init__(self) -> None:
        watched, planned = self.watched, self.watched.planned
        self.state = watched.first
        self.left = watched.told()
        self.sql = watched.sql if planned is None else effective_sql(planned.template, planned.instance)
        self.ordered = has_order(watched.sql) if planned is None else planned.template.ordered

    def follow(self, position: int, next_position: float, plain: Oracle, exact: Oracle) -> None:
        if self.watched.planned is None:
            self._follow_answers(position, next_position, plain, exact)
        elif position >= self.watched.began and not self._gone(position):
            self._take(position)
            self._check(plain, exact)

    def _follow_answers(self, position: int, next_position: float, plain: Oracle, exact: Oracle) -> None:
        """The origin answers at its now: also between two commits, where only the schema changed."""
        began = position <= self.watched.began < next_position
        answered = [each for each in self.left if position <= each < next_position and not self._gone(each)]
        for each in answered:
            self._take(each)
            self._compare(plain, exact)
        if began and not answered:
            self._compare(plain, exact)
        self.report.answered += len(answered) + (began and not answered)

    def _gone(self, position: int) -> bool:
        return self.watched.until is not None and position > self.watched.until

    def _take(self, position: int) -> None:
        if position in self.left:
            self.state = applied(self.state, self.left.pop(position), self.ordered)

    def _check(self, plain: Oracle, exact: Oracle) -> None:
        answer = self._compare(plain, exact)
        if answer is not None:
            self.report.checks += 1
            self.report.changed += self.before is not None and self.before != answer
            self.before = answer

    def _compare(self, plain: Oracle, exact: Oracle) -> list[str] | None:
        """SQLite's answer; None where there is none to compare with."""
        exactly = adds(self.watched.planned)
        answer = plain.attempt(self.sql)
        if answer is None and exactly:
            answer = exact.attempt(self.sql)
        if answer is None:
            assert self.watched.troubles, "rows, where SQLite has an error"
            self.report.lost[RAISES] += 1
            return None
        answer, found = listed(answer, self.ordered), listed(self._rows(), self.ordered)
        if found == answer:
            return answer
        if exactly and found == listed(exact.attempt(self.sql) or [], self.ordered):
            self.report.rounded += 1
            return answer
        excuse = OVERFLOW if OVERFLOW in " ".join(self.watched.troubles) else None
        assert excuse, f"expected {answer}\n   found {found}\n   troubles {self.watched.troubles}"
        self.report.lost[excuse] += 1
        return None

    def _rows(self) -> list[str]:
        return [repr(tuple(row[name] for name in self.state.columns)) for row in self.state.rows]
