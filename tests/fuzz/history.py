"""What happens to the tables while queries are live: transactions that aim at what the queries read.

A transaction is drafted a few times, and the draft is taken that changes most answers; one that stayed the same for
some time counts more. No query is preferred to another, and none is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.model.change import Change, Transaction
from headwater.model.coalesce import coalesce
from headwater.model.schema import Column, Table
from headwater.model.value import Row, pack_any
from tests.fuzz.case import TYPES, Alter, Commit, Event, Query, Reload, Rows, Subscribe, Unsubscribe
from tests.fuzz.chance import DOMAINS, ROWS_MAX, Chance
from tests.fuzz.oracle import Oracle

_DRAFTS = 6
_STILL_MAX = 4  # an answer counts no more than this many others, however long it was the same


@dataclass(slots=True)
class History:
    chance: Chance
    rows: Rows
    queries: Sequence[Query]
    oracle: Oracle
    drafts: int = _DRAFTS
    still: list[int] = field(init=False)  # for each query: the transactions since its answer last changed
    answers: list[list[str]] = field(init=False)
    reads: list[Mapping[str, frozenset[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self.still = [0] * len(self.queries)
        self.reads = [self.oracle.reads(query.sql) for query in self.queries]
        self.answers = self._answers(self.rows)

    def events(self, commits: int) -> list[Event]:
        """Most queries are there from the start; some come, go and come again; sometimes the state is reloaded, and
        sometimes a table gets a column more."""
        late = [n for n in range(len(self.queries)) if self.chance.likely(0.2)]
        events: list[Event] = [Subscribe(n) for n in range(len(self.queries)) if n not in late]
        for _ in range(commits):
            if self.chance.likely(0.04) and late:
                events.append(Subscribe(late.pop()))
            if self.chance.likely(0.03):
                gone = self.chance.random.randrange(len(self.queries))
                events.append(Unsubscribe(gone))
                late.append(gone)
            if self.chance.likely(0.02):
                events.append(Reload())
            if self.chance.likely(0.015):
                events.append(self._alter())
            events.append(self.commit())
        return events

    def _alter(self) -> Alter:
        table = self.chance.pick(list(self.rows.tables.values()))
        declared = self.chance.pick([type for type in DOMAINS if type])
        default = self.chance.pick((None, *DOMAINS[declared]))
        column = Column(f"more{len(table.columns)}", TYPES[declared], declared, filler=pack_any(default))
        alter = Alter(table.name, column)
        self.rows.alter(alter)
        self.oracle.alter(alter)
        return alter

    # Transactions

    def commit(self) -> Commit:
        drafts = [self._draft() for _ in range(self.drafts)]
        best = max(drafts, key=lambda draft: draft.worth)
        self.rows, self.answers = best.rows, best.answers
        self.oracle.fill(self.rows)
        self.still = [0 if n in best.changed else still + 1 for n, still in enumerate(self.still)]
        return best.commit

    def _draft(self) -> Draft:
        aims = sorted(range(len(self.queries)), key=lambda n: -self.still[n])[: self.chance.random.randint(1, 4)]
        drawing = Drawing(self.chance, self.rows.copy(), [self.reads[n] for n in aims])
        commit = drawing.commit()
        answers = self._answers(drawing.rows)
        changed = {n for n, (one, other) in enumerate(zip(self.answers, answers, strict=True)) if one != other}
        return Draft(commit, drawing.rows, answers, changed, sum(1 + min(self.still[n], _STILL_MAX) for n in changed))

    def _answers(self, rows: Rows) -> list[list[str]]:
        self.oracle.fill(rows)
        return [sorted(self.oracle.attempt(query.sql) or ()) for query in self.queries]


@dataclass(frozen=True, slots=True)
class Draft:
    commit: Commit
    rows: Rows
    answers: list[list[str]]
    changed: set[int]
    worth: int


@dataclass(slots=True)
class Drawing:
    """Draws one transaction, and does it to `rows`; mostly in the columns that queries read."""

    chance: Chance
    rows: Rows
    reads: Sequence[Mapping[str, frozenset[str]]]

    def commit(self) -> Commit:
        """Of one table or of several; small, or many rows at once."""
        touched = self._tables()
        most = self.chance.pick((1, 2, 2, 4, 8))
        changes = [
            one for table in touched for _ in range(self.chance.random.randint(1, most)) for one in self._changes(table)
        ]
        return Commit(tuple(coalesce(Transaction(0, tuple(changes)), self.rows.tables).changes))

    def _tables(self) -> list[Table]:
        named = sorted({name for reads in self.reads for name in reads})
        if named and self.chance.likely(0.8):
            return [self.rows.tables[name] for name in self.chance.some(named, len(named))]
        return self.chance.some(list(self.rows.tables.values()), len(self.rows.tables))

    def _changes(self, table: Table) -> list[Change]:
        there = list(self.rows.of_table[table.name].values())
        kind = self.chance.random.random()
        if not there or (kind < 0.3 and len(there) < ROWS_MAX):
            return self._moved(table, None, self.chance.row(table))
        old = self.chance.pick(there)
        if kind < 0.45:
            return self._moved(table, old, None)
        if kind < 0.55:
            again = self._changed(table, old, within_key=False)
            return [*self._moved(table, old, None), *self._moved(table, None, again)]
        return self._moved(table, old, self._changed(table, old, within_key=self.chance.likely(0.25)))

    def _changed(self, table: Table, row: Row, within_key: bool) -> Row:
        places = [n for n, c in enumerate(table.columns) if within_key or c.name not in table.key]
        read = {name for reads in self.reads for name in reads.get(table.name, ())}
        aimed = [n for n in places if table.columns[n].name in read]
        chosen = self.chance.some(aimed if aimed and self.chance.likely(0.8) else places, 2)
        return tuple(self.chance.value(c) if n in chosen else row[n] for n, c in enumerate(table.columns))

    def _moved(self, table: Table, old: Row | None, new: Row | None) -> list[Change]:
        """The change, where it is possible."""
        if old is not None:
            self.rows.remove(table.name, old)
        if new is not None and not self.rows.insert(table.name, new):
            if old is not None:
                self.rows.insert(table.name, old)
            return []
        return [Change(table.name, old, new)]
