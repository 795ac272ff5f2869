"""Asks the origin again: for every window it answers, when something it reads has changed. Answers enter the log.

One question is outstanding per window and covers all that became dirty since. The origin answers at its now, so an
answer is logged once the log has reached the position it was given at. A window whose rows have keys is asked for those
that changed: at a moment of the origin that is held until the log has reached it, so that no change is left out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.engine.partners import packed
from headwater.engine.replay import too_large
from headwater.model.change import Change, Transaction
from headwater.model.errors import HeadwaterError, LimitExceeded, SqlError
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.model.stretch import among
from headwater.model.value import Row
from headwater.pipeline.capture import Stopped
from headwater.pipeline.records import Answer as Answered
from headwater.pipeline.renames import Renames
from headwater.pipeline.touched import Touched
from headwater.plan.selective import Selection, Unmapped
from headwater.plan.wholistic import Requeried, touches
from headwater.sources.source import Answer, Moment, Source
from headwater.vital import VitalThread

_RETRY_S = 0.5
_OUTGROWN = "its tables have other columns or keys now: subscribe again"
_log = logging.getLogger("headwater.requery")


@dataclass(slots=True)
class Asked:
    """`dirty` when a question is due, `asking` while one is under way.

    The window is right through `position` once its cell is past `offset`. `rows` is how many it has at most.
    """

    query: Requeried
    touched: Touched
    renames: Renames
    dirty: bool = True
    asking: bool = False
    position: int = -1
    offset: int = -1
    rows: int = 0

    @property
    def in_parts(self) -> bool:
        return self.query.selection is not None and self.offset >= 0 and not self.touched.needs_whole

    def changed(self, position: int, table: Table, change: Change) -> None:
        selection = self.query.selection
        if self.dirty and selection is None:
            return
        if not touches(self.query.mask, change.table, table.names, change.old, change.new):
            return
        self.dirty = True
        if selection is not None:
            if change.table in selection.keys:
                self.renames.note(position, table, change)
            try:
                self.touched.note(position, list(selection.wanted(table, change)))
            except Unmapped:
                self.touched.note_whole(position)


class Requery:
    def __init__(
        self,
        source: Source,
        log: Callable[[Answered], int],
        logged: Callable[[int], None],
        give_up: Callable[[int, str], None],
        limits: Limits,
    ) -> None:
        """`log` gives the offset of the answer; `logged` returns once the log has reached a position; `give_up` ends a
        window that the origin does not answer, or answers with too much."""
        self._source, self._log, self._logged = source, log, logged
        self._give_up, self._limits = give_up, limits
        self._asked: dict[int, Asked] = {}
        self._failed: dict[int, str] = {}
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stop = False
        self.thread = VitalThread("headwater-requery", self._run)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.release()
        self._stop = True
        self._due.set()
        if self.thread.is_alive():
            self.thread.join()

    def watch(self, query: Requeried) -> None:
        """From here on the window is asked for; at once, the first time."""
        with self._lock:
            most = self._limits.selective_keys_max
            known = self._asked.setdefault(query.instance, Asked(query, Touched(most), Renames(most)))
            known.dirty = True
        self._due.set()

    def forget(self, instance: int) -> None:
        with self._lock:
            self._asked.pop(instance, None)
            self._failed.pop(instance, None)

    @property
    def failures(self) -> dict[int, str]:
        """Why the last question failed, of each window whose did."""
        with self._lock:
            return dict(self._failed) if self._failed else {}

    def reading(self, table: str) -> list[int]:
        """The windows that read a table."""
        with self._lock:
            return [instance for instance, asked in self._asked.items() if table in asked.query.mask]

    def outgrown(self, table: Table) -> list[int]:
        """The windows that count on keys which the table does not have any more."""
        with self._lock:
            selections = {instance: asked.query.selection for instance, asked in self._asked.items()}
        return [instance for instance, one in selections.items() if one is not None and not one.fits(table)]

    def changed(self, transactions: Sequence[Transaction], tables: Mapping[str, Table]) -> None:
        """Told before the transactions are readable in the log: no position is reported that is not known dirty."""
        with self._lock:
            if self._asked:
                read = {table for asked in self._asked.values() for table in asked.query.mask}
                for transaction in transactions:
                    for change in among(transaction.changes, read):
                        for asked in self._asked.values():
                            asked.changed(transaction.position, tables[change.table], change)
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
            self.ask()

    def ask(self) -> None:
        """Every question that is due now."""
        for instance, asked in self._ask_parts(self._take()):
            self._trying([asked], partial(self._ask_whole, instance, asked))

    def _take(self) -> dict[int, Asked]:
        """Clean from the moment of the question on: what comes later makes it dirty again."""
        with self._lock:
            due = {instance: asked for instance, asked in self._asked.items() if asked.dirty}
            for asked in due.values():
                asked.dirty, asked.asking = False, True
            return due

    def _trying(self, due: Iterable[Asked], ask: Callable[[], None]) -> None:
        """What cannot be asked now is asked again soon."""
        reason = None
        try:
            ask()
            return
        except Stopped:
            pass
        except HeadwaterError as error:
            _log.warning("a query could not be asked again: %s", error)
            reason = error.message
        except Exception as error:
            _log.exception("a query could not be asked again")
            reason = repr(error)
        with self._lock:
            for asked in due:
                asked.dirty, asked.asking = True, False
                if reason is not None and asked.query.instance in self._asked:
                    self._failed[asked.query.instance] = f"the database could not be asked: {reason}"
        threading.Timer(_RETRY_S, self._due.set).start()

    # The whole

    def _ask_whole(self, instance: int, asked: Asked) -> None:
        def ask() -> Answer:
            answer = self._source.query(asked.query.asked, asked.query.params)
            self._logged(answer.position)
            return answer

        answer = self._understood(instance, asked, ask)
        if answer is None:
            return
        if len(answer.rows) > self._limits.result_rows_max:
            self._give_up(instance, too_large(self._limits.result_rows_max))
            return
        asked.rows = len(answer.rows)
        renamed = self._renamed(asked, answer.position)
        offset = self._log(Answered(instance, answer.position, tuple(answer.rows), renamed=renamed))
        self._answered(asked, answer.position, offset)

    def _understood(
        self, instance: int, asked: Asked, ask: Callable[[], Answer | None], times: int = 1
    ) -> Answer | None:
        """The answer; none where the origin has none, or not of these columns and keys: then the window ends."""
        try:
            answer = ask()
        except (SqlError, LimitExceeded) as error:
            self._give_up(instance, error.message)
            return None
        if answer is None or _fits(asked.query, answer, times):
            return answer
        self._give_up(instance, _OUTGROWN)
        return None

    def _answered(self, asked: Asked, position: int, offset: int) -> None:
        with self._lock:
            asked.position, asked.offset, asked.asking = position, offset, False
            self._failed.pop(asked.query.instance, None)
            asked.touched.answered(position)
            asked.renames.answered(position)
            if asked.touched:
                asked.dirty = True
                self._due.set()

    # Parts of it

    def _ask_parts(self, due: dict[int, Asked]) -> list[tuple[int, Asked]]:
        """One moment for all of them. What is left is to be asked whole."""
        parts = {instance: asked for instance, asked in due.items() if asked.in_parts}
        left = [(instance, asked) for instance, asked in due.items() if instance not in parts]

        def ask() -> None:
            with self._source.moment() as moment:
                self._logged(moment.position)
                left.extend(one for one in parts.items() if not self._ask_part(*one, moment))

        if parts:
            self._trying(parts.values(), ask)
        return left

    def _ask_part(self, instance: int, asked: Asked, moment: Moment) -> bool:
        """Whether that did: the moment may have passed, and many parts may come to too many rows."""
        selection = asked.query.selection
        assert selection is not None
        with self._lock:
            wanted = asked.touched.upto(moment.position)
        if not wanted:
            self._answered(asked, moment.position, asked.offset)
            return True
        question = selection.part(wanted)
        answer = self._understood(instance, asked, lambda: moment.query(question, asked.query.params), len(wanted))
        if answer is None:
            return instance not in self._asked
        asked.rows += len(answer.rows)
        if asked.rows > self._limits.result_rows_max:
            return False
        parts = tuple((selection.asks[ask], tuple(values)) for ask, values in wanted.items())
        rows = tuple(_once(answer.rows, selection))
        renamed = self._renamed(asked, moment.position)
        self._answered(asked, moment.position, self._log(Answered(instance, moment.position, rows, parts, renamed)))
        return True

    def _renamed(self, asked: Asked, position: int) -> tuple[tuple[tuple[int, ...], dict[bytes, bytes]], ...]:
        selection = asked.query.selection
        if selection is None:
            return ()
        with self._lock:
            renamed = asked.renames.upto(position)
        return selection.placed(renamed)


def _fits(query: Requeried, answer: Answer, times: int) -> bool:
    """Whether it has the columns that were asked for, and no two rows of the same keys, but for one that was found in
    several parts."""
    selection = query.selection
    if selection is None:
        return len(answer.columns) == len(query.names)
    if len(answer.columns) != len(query.names) + len(selection.columns):
        return False
    rows = answer.rows if times == 1 else {packed(row): row for row in answer.rows}.values()
    return len(_once(rows, selection)) == len(rows)


def _once(rows: Iterable[Row], selection: Selection) -> Collection[Row]:
    """Each row once, by its keys: it is found by every one of them."""
    start = -len(selection.columns)
    return {packed(row[start:][: selection.identity]): row for row in rows}.values()
