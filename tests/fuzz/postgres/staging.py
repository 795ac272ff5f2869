"""A scratch database in which a case is tried out while it is invented: which queries are worth asking, and which
transactions change their answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headwater.model.errors import HeadwaterError
from headwater.plan.planner import plan
from headwater.sources.postgres.source import PostgresSource
from tests.fuzz.postgres.case import Case, Query, Transaction
from tests.fuzz.postgres.oracle import possible, shown, undone
from tests.fuzz.postgres.writers import Connection, acted, fill
from tests.fuzz.tally import operators


@dataclass(slots=True)
class Stage:
    """`covering` are the kinds of operators that the queries shall use, if they can."""

    db: Connection
    url: str
    covering: Collection[str] = ()
    queries: Sequence[Query] = ()
    answers: list[list[str] | None] = field(default_factory=list)

    def possible(self, case: Case, offered: Sequence[Query]) -> Sequence[Query]:
        return possible(self.db, case, offered)

    def set_up(self, case: Case, offered: Sequence[Query], count: int) -> Sequence[Query]:
        """The tables and rows, and so many of the queries."""
        fill(self.db, case)
        self.queries = self._chosen(offered)[:count]
        self.answers = self._answers()
        return self.queries

    def _chosen(self, offered: Sequence[Query]) -> list[Query]:
        """First those that use, together, as many of the kinds as chance offers."""
        source = PostgresSource(self.url)
        tables, wanted, first = source.tables(), set(self.covering), []
        source.close()
        for query in offered if wanted else ():
            try:
                new = wanted & operators(plan(query.sql, tables, query.params))
            except HeadwaterError:
                continue
            if new:
                wanted -= new
                first.append(query)
        return [*first, *(query for query in offered if query not in first)]

    def best(self, drafts: Sequence[Transaction]) -> Transaction:
        """The draft that changes most answers, done."""
        best = max(drafts, key=self._worth)
        with self.db.transaction():
            self._act(best)
        self.answers = self._answers()
        return best

    def _worth(self, draft: Transaction) -> int:
        with undone(self.db):
            self._act(draft)
            return sum(one != other for one, other in zip(self._answers(), self.answers, strict=True))

    def _act(self, transaction: Transaction) -> None:
        for action in transaction.actions:
            acted(self.db, action, lambda statement: None)

    def _answers(self) -> list[list[str] | None]:
        return [shown(self.db, query) for query in self.queries]
