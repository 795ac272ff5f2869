"""Asks the origin again: for every window it answers, when something it reads has changed. Answers enter the log.

One question is outstanding per window and covers all that became dirty since. The origin answers at its now, so an
answer is logged once the log has reached the position it was given at. A window whose rows have keys is asked for those
that changed: at a moment of the origin that is held until the log has reached it, so that no change is left out.

Several lanes ask at once. A question that is not answered within a moment goes on in a lane for slow ones, until the
limit; then its window ends. One that no client wants any more is cancelled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from headwater.engine.requeried.match_rows import packed
from headwater.engine.windows.size_limits import too_large
from headwater.model.change import Transaction
from headwater.model.columnar_changes import among
from headwater.model.errors import HeadwaterError, LimitExceeded, PermissionDenied, SqlError
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.pipeline.capture import Behind, Stopped
from headwater.pipeline.records.control import Answer as Answered
from headwater.pipeline.requery.asked_window import AskedWindow
from headwater.pipeline.requery.dirty_keys import Touched
from headwater.pipeline.requery.key_renames import Renames
from headwater.pipeline.requery.question_queue import QuestionQueue
from headwater.plan.requery_by_key import Selection
from headwater.plan.requery_whole import Requeried
from headwater.runtime.vital_thread import VitalThread
from headwater.sources.cancellation import Cancellation, Cancelled, TooSlow
from headwater.sources.source import Answer, Moment, Source

LANES = 2  # for questions that are slow, and as many for those that are not
_RETRY_S = 0.5
_QUICK_S = 1.0  # what takes longer is slow
_STOP_S = 5.0
_PATIENCE_S, _PATIENCE_S_MAX = 1.0, 30.0  # with the log, while a moment is open
_OUTGROWN = "its tables have other columns or keys now: subscribe again"
_log = logging.getLogger("headwater.requery")


class Requery:
    def __init__(
        self,
        source: Source,
        log: Callable[[Answered], int],
        logged: Callable[[int], None],
        logged_soon: Callable[[int, float], None],
        give_up: Callable[[int, str], None],
        limits: Limits,
        learn: Callable[[Requeried], Requeried],
        settle: Callable[[], object] = lambda: None,
    ) -> None:
        """`log` gives the offset of the answer; `logged` returns once the log has reached a position, `logged_soon`
        raises `Behind` where it has not after so many seconds; `give_up` ends a window that the origin does not answer,
        or answers with too much; `learn` tells what a query reads by now, from tables that are all captured; `settle`
        returns once the cells have taken what is in the log."""
        self._source, self._log, self._logged, self._logged_soon = source, log, logged, logged_soon
        self._patience_s = _PATIENCE_S
        self._give_up, self._limits, self._limit_s = give_up, limits, limits.question_ms_max / 1000
        self._learn, self._settle = learn, settle
        self.redefinitions = 0  # told so far
        self._asked: dict[int, AskedWindow] = {}
        self._failed: dict[int, str] = {}
        self._queue = QuestionQueue(LANES)
        self._later: dict[int, AskedWindow] = {}  # what failed, and is asked again at its `retry_s`
        self._lock = threading.Condition()
        self._stop = False
        self.threads = [
            VitalThread(f"headwater-requery-{number}", partial(self._run, number >= LANES))
            for number in range(2 * LANES)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """What is asked now is cancelled. An origin that takes no notice is not waited for."""
        for thread in self.threads:
            thread.release()
        with self._lock:
            self._stop = True
            for asked in self._asked.values():
                asked.cancellation.cancel()
            self._lock.notify_all()
        until_s = time.monotonic() + _STOP_S
        for thread in filter(threading.Thread.is_alive, self.threads):
            thread.join(max(0.0, until_s - time.monotonic()))

    def watch(self, query: Requeried, client: int = 0) -> None:
        """From here on the window is asked for; at once, the first time."""
        with self._lock:
            most = self._limits.selective_keys_max
            is_unsure = query.learned != self.redefinitions
            fresh = AskedWindow(query, Touched(most), Renames(most), client, unsure=is_unsure)
            self._put(query.instance, self._asked.setdefault(query.instance, fresh))

    def forget(self, instance: int) -> None:
        with self._lock:
            asked = self._asked.pop(instance, None)
            self._failed.pop(instance, None)
            self._queue.discard(instance)
            self._later.pop(instance, None)
        if asked is not None:
            asked.cancellation.cancel()
            with asked.logging:
                pass  # an answer that is being logged is logged before anybody begins anew

    @property
    def failures(self) -> dict[int, str]:
        """Why the last question failed, of each window whose did."""
        with self._lock:
            return dict(self._failed) if self._failed else {}

    def _put(self, instance: int, asked: AskedWindow) -> None:
        """It is due. Under the lock; where it is asked just now, it is put again when that is over."""
        asked.dirty = True
        if asked.asking or self._asked.get(instance) is not asked:
            return
        if asked.retry_s > time.monotonic():
            self._later[instance] = asked
        else:
            self._queue.put(instance, asked.client, asked.slow)
        self._lock.notify_all()

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
                dirty = {instance for instance, asked in self._asked.items() if asked.dirty}
                for transaction in transactions:
                    for change in among(transaction.changes, read):
                        for asked in self._asked.values():
                            asked.changed(transaction.position, tables[change.table], change)
                for instance, asked in self._asked.items():
                    if asked.dirty and instance not in dirty:
                        self._put(instance, asked)

    def redefined(self) -> None:
        """Views or functions may be others now. Told before a position behind that is readable in the log."""
        with self._lock:
            self.redefinitions += 1
            for instance, asked in self._asked.items():
                asked.unsure = True
                self._put(instance, asked)

    def right_through(self, instance: int, to: int, position: int) -> int:
        """The position a window is right for, seen by someone who has read its cell up to `to` and `position`."""
        with self._lock:
            asked = self._asked.get(instance)
            if asked is None or to < asked.offset:
                return -1
            return asked.position if asked.dirty or asked.asking else max(position, asked.position)

    # The lanes

    def _run(self, slow: bool) -> None:
        while (taken := self._next(slow)) is not None:
            client, due = taken
            try:
                self._ask(due, self._limit_s if slow else min(_QUICK_S, self._limit_s))
            finally:
                with self._lock:
                    self._queue.done(slow, client)
                    self._lock.notify_all()

    def _next(self, slow: bool) -> tuple[int, dict[int, AskedWindow]] | None:
        """What a lane asks next, and whose it is; none when there is an end to it."""
        with self._lock:
            while not self._stop:
                wait_s = self._put_later()
                taken = self._queue.take(slow)
                if taken is not None:
                    window, client = taken
                    return client, self._taken([window, *self._beside(window)])
                self._lock.wait(wait_s)
            return None

    def _put_later(self) -> float | None:
        """Puts what failed a while ago; how long to wait for the next."""
        now_s = time.monotonic()
        for instance in [one for one, asked in self._later.items() if asked.retry_s <= now_s]:
            self._put(instance, self._later.pop(instance))
        return min((asked.retry_s - now_s for asked in self._later.values()), default=None)

    def _beside(self, window: int) -> list[int]:
        """Windows of which only parts are asked share one moment of the origin."""
        if self._asked[window].slow or not self._asked[window].in_parts:
            return []
        return [one for one in self._queue.due() if self._asked[one].in_parts and not self._asked[one].slow]

    def _taken(self, windows: Iterable[int]) -> dict[int, AskedWindow]:
        """Clean from the moment of the question on: what comes later makes it dirty again."""
        taken = {window: self._asked[window] for window in windows}
        for window, asked in taken.items():
            self._queue.discard(window)
            asked.dirty, asked.asking = False, True
        return taken

    def ask(self) -> None:
        """Every question that is due now, one after the other: where no lanes run."""
        with self._lock:
            self._put_later()
            due = self._taken(self._queue.due())
        self._ask(due, self._limit_s)

    def _ask(self, due: dict[int, AskedWindow], limit_s: float) -> None:
        sure = {instance: asked for instance, asked in due.items() if self._is_sure(instance, asked)}
        for instance, asked in self._ask_parts(sure, limit_s):
            self._trying({instance: asked}, partial(self._ask_whole, instance, asked, limit_s))

    def _is_sure(self, instance: int, asked: AskedWindow) -> bool:
        """Whether it is known what the query reads. Where that is another than before, its changes count from here on,
        and the question comes after."""
        if not asked.unsure:
            return True
        asked.unsure = False
        is_learned = self._trying({instance: asked}, partial(self._learn_again, instance, asked))
        asked.unsure = asked.unsure or not is_learned
        return is_learned and self._asked.get(instance) is asked

    def _learn_again(self, instance: int, asked: AskedWindow) -> None:
        try:
            query = self._learn(asked.query)
        except (SqlError, PermissionDenied) as error:
            self._give_up(instance, error.message)
            return
        with self._lock:
            asked.query = query
            asked.touched.note_whole(asked.position)

    def _trying(self, due: Mapping[int, AskedWindow], ask: Callable[[], None]) -> bool:
        """What cannot be asked now is asked again soon; what took too long for its lane, in a slow one. Whether it
        went well."""
        retry_s, reason = 0.0, None
        try:
            ask()
            return True
        except (Cancelled, TooSlow):
            pass
        except (Stopped, Behind):
            retry_s = time.monotonic() + _RETRY_S
        except HeadwaterError as error:
            retry_s, reason = time.monotonic() + _RETRY_S, error.message
            _log.warning("a query could not be asked again: %s", error)
        except Exception as error:
            retry_s, reason = time.monotonic() + _RETRY_S, repr(error)
            _log.exception("a query could not be asked again")
        self._put_failed(due, retry_s, reason)
        return False

    def _put_failed(self, due: Mapping[int, AskedWindow], retry_s: float, reason: str | None) -> None:
        """Those without an answer; the reason says why."""
        with self._lock:
            for instance, asked in due.items():
                asked.asking, asked.retry_s = False, retry_s
                if reason is not None and self._asked.get(instance) is asked:
                    self._failed[instance] = f"the database could not be asked: {reason}"
                self._put(instance, asked)

    # The whole

    def _ask_whole(self, instance: int, asked: AskedWindow, limit_s: float) -> None:
        def ask(cancellation: Cancellation) -> Answer:
            return self._source.query(asked.query.asked, asked.query.params, cancellation)

        answer = self._understood(instance, asked, ask, limit_s)
        if answer is None:
            return
        self._logged(answer.position)
        if len(answer.rows) > self._limits.result_rows_max:
            self._give_up(instance, too_large(self._limits.result_rows_max))
            return
        asked.rows = len(answer.rows)
        renamed = self._renamed(asked, answer.position)
        self._settle()  # many answers at once would stand before the next commit in the log
        self._log_answer(asked, Answered(instance, answer.position, tuple(answer.rows), renamed=renamed))

    def _understood(
        self,
        instance: int,
        asked: AskedWindow,
        ask: Callable[[Cancellation], Answer | None],
        limit_s: float,
        times: int = 1,
    ) -> Answer | None:
        """The answer; none where the origin has none, or not of these columns and keys: then the window ends."""
        began_s = time.monotonic()
        try:
            answer = ask(self._cancellable(instance, asked, limit_s))
            took_s = time.monotonic() - began_s
            asked.slow = took_s > _QUICK_S
            _log.debug("window %d: the source answered in %.1f ms", instance, took_s * 1000)
        except TooSlow as error:
            asked.slow = True
            if limit_s < self._limit_s:
                raise
            self._give_up(instance, error.message)
            return None
        except (SqlError, LimitExceeded, PermissionDenied) as error:
            self._give_up(instance, error.message)
            return None
        if answer is None or _fits(asked.query, answer, times):
            return answer
        self._give_up(instance, _OUTGROWN)
        return None

    def _cancellable(self, instance: int, asked: AskedWindow, limit_s: float) -> Cancellation:
        """From here on `forget` and `stop` end the question."""
        with self._lock:
            cancellation = asked.cancellation = Cancellation(limit_s, self._limits.question_bytes_max)
            if self._stop or self._asked.get(instance) is not asked:
                cancellation.cancel()
            return cancellation

    def _log_answer(self, asked: AskedWindow, answer: Answered) -> None:
        """One that no client wants any more is left out: it would be taken for that of who asks next."""
        with asked.logging:
            if self._asked.get(answer.instance) is asked:
                self._answered(asked, answer.position, self._log(answer))
                what = "whole" if answer.parts is None else f"in {len(answer.parts)} parts"
                told = answer.instance, what, len(answer.rows), answer.position
                _log.debug("window %d: logged its answer %s, %d rows at position %d", *told)

    def _answered(self, asked: AskedWindow, position: int, offset: int) -> None:
        """It is put again where it became dirty meanwhile: from here on another lane may ask for it."""
        with self._lock:
            asked.position, asked.offset, asked.asking = position, offset, False
            self._failed.pop(asked.query.instance, None)
            asked.touched.answered(position)
            asked.renames.answered(position)
            if asked.dirty or asked.touched:
                self._put(asked.query.instance, asked)

    # Parts of it

    def _ask_parts(self, due: dict[int, AskedWindow], limit_s: float) -> list[tuple[int, AskedWindow]]:
        """One moment for all of them. What is left is to be asked whole."""
        parts = {instance: asked for instance, asked in due.items() if asked.in_parts}
        left = [(instance, asked) for instance, asked in due.items() if instance not in parts]

        def ask() -> None:
            with self._source.moment() as moment:
                self._logged_meanwhile(moment.position)
                for instance, asked in list(parts.items()):
                    if self._ask_part(instance, asked, moment, limit_s):
                        del parts[instance]  # no longer ours: whatever fails now, another lane may be asking for it
                    else:
                        left.append((instance, asked))

        if parts and not self._trying(parts, ask):
            return [(instance, asked) for instance, asked in left if instance not in parts]
        return left

    def _logged_meanwhile(self, position: int) -> None:
        """While a moment is open: on SQLite without a WAL it keeps a writer waiting, who keeps the capture waiting. So
        not for long at first, and for longer where the capture is slow."""
        try:
            self._logged_soon(position, self._patience_s)
        except Behind:
            self._patience_s = min(2 * self._patience_s, _PATIENCE_S_MAX)
            raise
        self._patience_s = _PATIENCE_S

    def _ask_part(self, instance: int, asked: AskedWindow, moment: Moment, limit_s: float) -> bool:
        """Whether that did: the moment may have passed, many parts may come to too many rows, and the log, on its way
        to the moment, may have told of a change that has no parts."""
        selection = asked.query.selection
        assert selection is not None
        if self._asked.get(instance) is not asked:
            return True
        with self._lock:
            if asked.unsure or not asked.in_parts:
                return False
            wanted = asked.touched.upto(moment.position)
        if not wanted:
            self._answered(asked, moment.position, asked.offset)
            return True
        question = selection.part(wanted)
        answer = self._understood(
            instance, asked, lambda ending: moment.query(question, asked.query.params, ending), limit_s, len(wanted)
        )
        if answer is None:
            return instance not in self._asked
        asked.rows += len(answer.rows)
        if asked.rows > self._limits.result_rows_max:
            return False
        parts = tuple((selection.asks[ask], tuple(values)) for ask, values in wanted.items())
        rows = tuple(_once(answer.rows, selection))
        renamed = self._renamed(asked, moment.position)
        self._log_answer(asked, Answered(instance, moment.position, rows, parts, renamed))
        return True

    def _renamed(self, asked: AskedWindow, position: int) -> tuple[tuple[tuple[int, ...], dict[bytes, bytes]], ...]:
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
