"""Asks the origin again: for every window it answers, when something it reads has changed. Answers enter the log.

One question is outstanding per window and covers all that became dirty since. The origin answers at its now, so an
answer is logged once the log has reached the position it was given at.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.engine.replay import too_large
from headwater.model.change import Transaction
from headwater.model.errors import HeadwaterError, LimitExceeded, SqlError
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.pipeline.capture import Stopped
from headwater.plan.wholistic import Requeried, touches
from headwater.sources.source import Source

_RETRY_S = 0.5
_log = logging.getLogger("headwater.requery")
Log = Callable[[int, int, Sequence[Row]], int]  # instance, position, rows → offset of the answer


@dataclass(slots=True)
class Asked:
    """`dirty` when a question is due, `asking` while one is under way.

    The window is right through `position` once its cell is past `offset`.
    """

    query: Requeried
    dirty: bool = True
    asking: bool = False
    position: int = -1
    offset: int = -1


class Requery:
    def __init__(
        self,
        source: Source,
        log: Log,
        logged: Callable[[int], None],
        give_up: Callable[[int, str], None],
        rows_max: int,
    ) -> None:
        """`logged` returns once the log has reached a position; `give_up` ends a window that the origin does
        not answer, or answers with too much."""
        self._source, self._log, self._logged = source, log, logged
        self._give_up, self._rows_max = give_up, rows_max
        self._asked: dict[int, Asked] = {}
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="headwater-requery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def watch(self, query: Requeried) -> None:
        """From here on the window is asked for; at once, the first time."""
        with self._lock:
            known = self._asked.setdefault(query.instance, Asked(query))
            known.dirty = True
        self._due.set()

    def forget(self, instance: int) -> None:
        with self._lock:
            self._asked.pop(instance, None)

    def reading(self, table: str) -> list[int]:
        """The windows that read a table."""
        with self._lock:
            return [instance for instance, asked in self._asked.items() if table in asked.query.mask]

    def changed(self, transactions: Sequence[Transaction], tables: Mapping[str, Table]) -> None:
        """Told before the transactions are readable in the log: no position is reported that is not known dirty."""
        with self._lock:
            if self._asked:
                for asked in self._asked.values():
                    asked.dirty = asked.dirty or _dirties(asked.query, transactions, tables)
                if any(asked.dirty for asked in self._asked.values()):
                    self._due.set()

    def right_through(self, instance: int, to: int, position: int) -> int:
        """The position a window is right for, seen by someone who has read its cell up to `to` and `position`."""
        with self._lock:
            asked = self._asked.get(instance)
            if asked is None or to < asked.offset:
                return -1
            return asked.position if asked.dirty or asked.asking else max(position, asked.position)

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._stop:
                return
            for instance, asked in self._take():
                if not self._ask(instance, asked):
                    self._again(asked)

    def _take(self) -> list[tuple[int, Asked]]:
        with self._lock:
            return [(instance, asked) for instance, asked in self._asked.items() if asked.dirty]

    def _ask(self, instance: int, asked: Asked) -> bool:
        """Clean from the moment of the question on: what comes later makes it dirty again."""
        with self._lock:
            asked.dirty, asked.asking = False, True
        try:
            answer = self._source.query(asked.query.sql, asked.query.params)
            if len(answer.rows) > self._rows_max:
                self._give_up(instance, too_large(self._rows_max))
                return True
            self._logged(answer.position)
            offset = self._log(instance, answer.position, answer.rows)
        except (SqlError, LimitExceeded) as error:
            self._give_up(instance, error.message)
            return True
        except Stopped:
            return False
        except HeadwaterError as error:
            _log.warning("a query could not be asked again: %s", error)
            return False
        with self._lock:
            asked.position, asked.offset, asked.asking = answer.position, offset, False
        return True

    def _again(self, asked: Asked) -> None:
        with self._lock:
            asked.dirty, asked.asking = True, False
        threading.Timer(_RETRY_S, self._due.set).start()


def _dirties(query: Requeried, transactions: Sequence[Transaction], tables: Mapping[str, Table]) -> bool:
    return any(
        touches(query.mask, change.table, tables[change.table].names, change.old, change.new)
        for transaction in transactions
        for change in transaction.changes
    )
