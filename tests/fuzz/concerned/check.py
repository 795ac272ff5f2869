"""The oracle: an instance whose answer a transaction changed must be among those that it is said to concern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headwater.model.change import Transaction
from headwater.model.errors import HeadwaterError
from headwater.model.limits import DEFAULT
from headwater.pipeline.planning.strategy import asked_values_of
from headwater.pipeline.requery.dirty_keys import DirtyKeys
from headwater.pipeline.requery.key_renames import KeyRenames
from headwater.pipeline.requery.requeried_window import RequeriedWindow
from headwater.pipeline.requery.window_index import WindowIndex
from headwater.plan.requery_whole import requeried
from headwater.sources.source import SchemaChange, Source
from tests.fuzz.concerned.invent import Asked, Invented, statement

Answers = dict[int, list[str] | None]


@dataclass(slots=True)
class Concerns:
    """Of one database with the tables t, u and w: what changes concern, and what they change. `run` asks a query of the
    database itself; it raises `failing` where there is no answer."""

    source: Source
    run: Callable[[str, Sequence[Any]], list[Any]]
    failing: type[Exception]
    values: Sequence[Any]
    random: Random
    place: str
    tally: Counter[str] = field(default_factory=Counter)
    windows: dict[int, RequeriedWindow] = field(default_factory=dict)

    def check(self, queries: int, transactions: int) -> None:
        position = self.source.position()
        tables = {table: self.source.capture(table) for table in "tuw"}
        index = self._watched(queries)
        before = self._answers()
        for _ in range(transactions):
            self._change()
            end = self.source.position()
            transactions_since = list[Transaction]()
            while position < end:
                items = self.source.changes(position, 5.0)
                transactions_since += [item for item in items if isinstance(item, Transaction)]
                changed = [item.after for item in items if isinstance(item, SchemaChange)]
                tables |= {table.name: table for table in changed if table is not None}
                position = items[-1].position if items else position
            concerned = {
                instance
                for transaction in transactions_since
                for change in transaction.changes
                for windows in index.concerned(tables[change.table], change)
                for instance in windows
            }
            after = self._answers()
            self._compare(before, after, concerned, transactions_since)
            before = after

    def _watched(self, queries: int) -> WindowIndex:
        """As many instances of each query as there are values."""
        index, invented = WindowIndex(), Invented(self.random, self.source.dialect == "postgres")
        tables = {table.name: table for table in self.source.tables()}
        while len(self.windows) < queries * len(self.values):
            asked = invented.query()
            try:
                reads = self.source.reads(asked.text, (self.values[0],))
            except HeadwaterError:
                self.tally["refused"] += 1
                continue
            asks = asked_values_of(self.source, tables, asked.text, reads)
            self.tally["asks for values" if asks else "asks for everything"] += 1
            for value in self.values:
                self._watch(
                    index, asked, value, requeried(asked.text, (value,), reads.columns, reads.tables, (), asks=asks)
                )
        return index

    def _watch(self, index: WindowIndex, asked: Asked, value: Any, query: Any) -> None:
        window = RequeriedWindow(query, DirtyKeys(DEFAULT.selective_keys_max), KeyRenames(1))
        self.windows[len(self.windows)] = window
        index.add(len(self.windows) - 1, window)

    def _answers(self) -> Answers:
        return {n: self._answer(window) for n, window in self.windows.items()}

    def _answer(self, window: RequeriedWindow) -> list[str] | None:
        """None where the database fails."""
        try:
            return sorted(map(repr, self.run(window.query.sql, window.query.values)))
        except self.failing:
            return None

    def _change(self) -> None:
        sql, given = statement(self.random, self.values, self.place)
        try:
            self.source.execute(sql, given)
        except HeadwaterError:
            self.tally["refused changes"] += 1

    def _compare(
        self, before: Answers, after: Answers, concerned: set[int], transactions: Sequence[Transaction]
    ) -> None:
        for n, window in self.windows.items():
            if before[n] is None or after[n] is None:
                self.tally["failed"] += 1
                continue
            changed = before[n] != after[n]
            self.tally["changed" if changed else "concerned in vain" if n in concerned else "left alone"] += 1
            if changed and n not in concerned:
                told = f"{window.query.sql}\n{window.query.values} {window.query.only}\n{transactions}"
                told += f"\n{before[n]}\n{after[n]}"
                raise AssertionError(f"a change was said not to concern\n{told}")
