"""The windows that the source answers: which are due to be queried, and the position up to which each is right.

It queries nothing itself. Safe for several threads.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from headwater.model.change import Transaction
from headwater.model.columnar_changes import among
from headwater.model.limits import Limits
from headwater.model.schema import Table
from headwater.pipeline.requery.dirty_keys import DirtyKeys, Wanted
from headwater.pipeline.requery.key_renames import KeyRenames
from headwater.pipeline.requery.question_queue import QuestionQueue
from headwater.pipeline.requery.requeried_window import RequeriedWindow
from headwater.pipeline.requery.window_index import WindowIndex
from headwater.plan.requery_whole import Requeried
from headwater.sources.cancellation import Cancellation, SharedCancellation

TOGETHER_MAX = 128  # windows that are asked for as one question: they take their turn in the log together


class WatchedWindows:
    """`lanes` ask at once, of each kind; `redefinitions` counts those of views and functions that were told so far."""

    def __init__(self, limits: Limits, lanes: int) -> None:
        self._limits = limits
        self.redefinitions = 0
        self.asked: dict[int, RequeriedWindow] = {}
        self._index = WindowIndex()
        self._failed: dict[int, str] = {}
        self._queue = QuestionQueue(lanes)
        self._later: dict[int, RequeriedWindow] = {}  # what failed, and is asked again at its `retry_s`
        self._lock = threading.Condition()
        self._stop = False

    def stop(self) -> None:
        """What is asked now is cancelled."""
        with self._lock:
            self._stop = True
            for asked in self.asked.values():
                asked.cancellation.cancel()
            self._lock.notify_all()

    def watch(self, query: Requeried, client: int = 0, known: tuple[int, int] = (-1, -1)) -> None:
        """From here on the window is asked for; at once, the first time. `known`: the position that it is right for,
        once its cell is past a log offset."""
        with self._lock:
            most = self._limits.selective_keys_max
            is_unsure = query.learned != self.redefinitions
            fresh = RequeriedWindow(query, DirtyKeys(most), KeyRenames(most), client, unsure=is_unsure)
            asked = self.asked.setdefault(query.instance, fresh)
            if asked is fresh:
                asked.position, asked.offset = known
                self._index.add(query.instance, asked)
            self._put(query.instance, asked)

    def forget(self, instance: int) -> None:
        with self._lock:
            asked = self.asked.pop(instance, None)
            if asked is not None:
                self._index.discard(instance, asked)
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

    def _put(self, instance: int, asked: RequeriedWindow) -> None:
        """It is due. Under the lock; where it is asked just now, it is put again when that is over."""
        asked.dirty = True
        if asked.asking or self.asked.get(instance) is not asked:
            return
        if asked.retry_s > time.monotonic():
            self._later[instance] = asked
        else:
            self._queue.put(instance, asked.client, asked.slow)
        self._lock.notify_all()

    def of_template(self, template: str) -> list[RequeriedWindow]:
        with self._lock:
            return [asked for asked in self.asked.values() if asked.query.template == template]

    # — what the log tells

    def reading(self, table: str) -> list[int]:
        """The windows that read a table."""
        with self._lock:
            return list(self._index.reading(table))

    def outgrown(self, table: Table) -> list[int]:
        """The windows that count on keys which the table does not have any more."""
        with self._lock:
            selections = {instance: asked.query.selection for instance, asked in self.asked.items()}
        return [instance for instance, one in selections.items() if one is not None and not one.fits(table)]

    def changed(self, transactions: Sequence[Transaction], tables: Mapping[str, Table]) -> None:
        """Told before the transactions are readable in the log: no position is reported that is not known dirty."""
        with self._lock:
            if self.asked:
                dirty = dict[int, RequeriedWindow]()
                for transaction in transactions:
                    for change in among(transaction.changes, self._index.tables):
                        table = tables[change.table]
                        for windows in self._index.concerned(table, change):
                            for instance, asked in windows.items():
                                if asked.changed(transaction.position, table, change):
                                    dirty[instance] = asked
                for instance, asked in dirty.items():
                    self._put(instance, asked)

    def reshaped(self, table: str) -> None:
        """A table has other columns or types from here on, and perhaps other values in its rows."""
        with self._lock:
            for instance, asked in self._index.reading(table).items():
                asked.touched.note_whole(asked.position)
                self._put(instance, asked)

    def redefined(self) -> None:
        """Views or functions may be others now. Told before a position behind that is readable in the log."""
        with self._lock:
            self.redefinitions += 1
            for instance, asked in self.asked.items():
                asked.unsure = True
                self._put(instance, asked)

    def right_through(self, instance: int, to: int, position: int) -> int:
        """The position a window is right for, seen by someone who has read its cell up to `to` and `position`."""
        with self._lock:
            asked = self.asked.get(instance)
            if asked is None or to < asked.offset:
                return -1
            return asked.position if asked.dirty or asked.asking else max(position, asked.position)

    # — what is due

    def next(self, slow: bool) -> tuple[int, dict[int, RequeriedWindow]] | None:
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

    def done(self, slow: bool, client: int) -> None:
        """A lane has asked what it took."""
        with self._lock:
            self._queue.done(slow, client)
            self._lock.notify_all()

    def all_due(self) -> dict[int, RequeriedWindow]:
        """Every window that is due now: where no lanes run."""
        with self._lock:
            self._put_later()
            return self._taken(self._queue.due())

    def _put_later(self) -> float | None:
        """Puts what failed a while ago; how long to wait for the next."""
        now_s = time.monotonic()
        for instance in [one for one, asked in self._later.items() if asked.retry_s <= now_s]:
            self._put(instance, self._later.pop(instance))
        return min((asked.retry_s - now_s for asked in self._later.values()), default=None)

    def _beside(self, window: int) -> list[int]:
        """Windows of which only parts are asked share one moment of the source, others of one template a question."""
        mine = self.asked[window]
        if mine.slow:
            return []
        due = ((one, self.asked[one]) for one in self._queue.due())
        if mine.in_parts:
            return [one for one, asked in due if asked.in_parts and not asked.slow]
        return list(itertools.islice((one for one, asked in due if asked.may_join(mine)), TOGETHER_MAX - 1))

    def _taken(self, windows: Iterable[int]) -> dict[int, RequeriedWindow]:
        """Clean from the moment of the question on: what comes later makes it dirty again."""
        taken = {window: self.asked[window] for window in windows}
        for window, asked in taken.items():
            self._queue.discard(window)
            asked.dirty, asked.asking = False, True
        return taken

    # — what a question came to

    def is_wanted(self, instance: int, asked: RequeriedWindow) -> bool:
        return self.asked.get(instance) is asked

    def cancellable(self, instance: int, asked: RequeriedWindow, limit_s: float) -> Cancellation:
        """From here on `forget` and `stop` end the question."""
        with self._lock:
            cancellation = asked.cancellation = Cancellation(limit_s, self._limits.question_bytes_max)
            if self._stop or not self.is_wanted(instance, asked):
                cancellation.cancel()
            return cancellation

    def cancellable_together(self, due: Mapping[int, RequeriedWindow], limit_s: float) -> Cancellation:
        """Of windows that are asked for as one: the question ends where none of them is wanted any more."""
        with self._lock:
            shared = SharedCancellation(limit_s, self._limits.question_bytes_max, len(due))
            for instance, asked in due.items():
                asked.cancellation = shared
                if self._stop or not self.is_wanted(instance, asked):
                    shared.cancel()
            return shared

    def learned(self, asked: RequeriedWindow, query: Requeried) -> None:
        """What it reads by now; all of it is to be asked for again."""
        with self._lock:
            if self.is_wanted(query.instance, asked):
                self._index.discard(query.instance, asked)
            asked.query = query
            if self.is_wanted(query.instance, asked):
                self._index.add(query.instance, asked)
            asked.touched.note_whole(asked.position)

    def wanted(self, asked: RequeriedWindow, position: int) -> Wanted | None:
        """The parts of it that changes up to this position made; none where it must be asked for as a whole."""
        with self._lock:
            return None if asked.unsure or not asked.in_parts else asked.touched.upto(position)

    def renamed(self, asked: RequeriedWindow, position: int) -> tuple[tuple[tuple[int, ...], dict[bytes, bytes]], ...]:
        """The keys that its rows were given up to this position."""
        selection = asked.query.selection
        if selection is None:
            return ()
        with self._lock:
            renamed = asked.renames.upto(position)
        return selection.placed(renamed)

    def answered(self, asked: RequeriedWindow, position: int, offset: int) -> None:
        """It is put again where it became dirty meanwhile: from here on another lane may ask for it."""
        with self._lock:
            asked.position, asked.offset, asked.asking = position, offset, False
            self._failed.pop(asked.query.instance, None)
            asked.touched.answered(position)
            asked.renames.answered(position)
            if asked.dirty or asked.touched:
                self._put(asked.query.instance, asked)

    def failed(self, due: Mapping[int, RequeriedWindow], retry_s: float, reason: str | None) -> None:
        """Those without an answer; the reason says why."""
        with self._lock:
            for instance, asked in due.items():
                asked.asking, asked.retry_s = False, retry_s
                if reason is not None and self.is_wanted(instance, asked):
                    self._failed[instance] = f"the database could not be queried: {reason}"
                self._put(instance, asked)
