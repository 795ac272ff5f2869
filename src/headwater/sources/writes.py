"""Writing one statement: a transaction of its own. For sources that know how to begin and end one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager

from headwater.sources.source import Params, Writes


class StatementTransactions(ABC):
    @abstractmethod
    def transaction(self) -> AbstractContextManager[Writes]: ...

    def execute(self, sql: str, params: Params = ()) -> int:
        with self.transaction() as tx:
            tx.execute(sql, params)
        return tx.position

    def executemany(self, sql: str, rows: Iterable[Params]) -> int:
        with self.transaction() as tx:
            tx.executemany(sql, rows)
        return tx.position
