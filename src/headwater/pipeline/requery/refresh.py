"""Queries the source for windows again, for all rows or for the changed keys, and logs the answers.

The source answers as of now, so an answer is logged when the log has reached its position. A window whose rows have
keys is queried for the keys that changed, in a snapshot that stays open until the log has reached it, so that no change
is missed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from headwater.engine.requeried.match_rows import packed
from headwater.engine.windows.size_limits import too_large
from headwater.model.errors import HeadwaterError, LimitExceeded, PermissionDenied, SqlError
from headwater.model.limits import Limits
from headwater.model.value import Row
from headwater.pipeline.capture import Behind, Stopped
from headwater.pipeline.records.control import AnswerRecord
from headwater.pipeline.requery.requeried_window import RequeriedWindow
from headwater.pipeline.requery.watched_windows import TOGETHER_MAX, WatchedWindows
from headwater.plan.requery_by_key import Selection
from headwater.plan.requery_whole import Requeried
from headwater.sources.cancellation import Cancellation, Cancelled, TooSlow
from headwater.sources.source import Answer, Moment, Source

QUICK_S = 1.0  # what takes longer is slow
_RETRY_S = 0.5
_PATIENCE_S, _PATIENCE_S_MAX = 1.0, 30.0  # with the log, while a moment is open
_OUTGROWN = "the columns or keys of its tables changed: subscribe again"
_log = logging.getLogger("headwater.requery")


class Refresh:
    def __init__(
        self,
        windows: WatchedWindows,
        source: Source,
        log: Callable[[Sequence[AnswerRecord]], list[int]],
        logged: Callable[[int], None],
        logged_soon: Callable[[int, float], None],
        give_up: Callable[[int, str], None],
        limits: Limits,
        learn: Callable[[Requeried], Requeried],
        settle: Callable[[], object],
    ) -> None:
        """`log` gives the offsets of answers; `logged` returns once the log has reached a position, `logged_soon`
        raises `Behind` where it has not after so many seconds; `give_up` ends a window that the source does not answer,
        or answers with too much; `learn` tells what a query reads by now, from tables that are all captured; `settle`
        returns once the cells have taken what is in the log."""
        self._windows, self._source = windows, source
        self._log, self._logged, self._logged_soon = log, logged, logged_soon
        self._give_up, self._learn, self._settle = give_up, learn, settle
        self._limits, self._patience_s = limits, _PATIENCE_S

    @property
    def limit_s(self) -> float:
        return self._limits.question_ms_max / 1000

    def ask(self, due: dict[int, RequeriedWindow], limit_s: float) -> None:
        """Asks for these windows, each within this time."""
        sure = {instance: asked for instance, asked in due.items() if self._is_sure(instance, asked)}
        groups = list(_groups(self._ask_parts(sure, limit_s)))
        while groups:
            group = groups.pop()
            if len(group) > 1:
                if self._trying(group, partial(self._ask_together, group, limit_s)):
                    groups += _halves(group)
            else:
                for instance, asked in group.items():
                    self._trying(group, partial(self._ask_whole, instance, asked, limit_s))

    def _is_sure(self, instance: int, asked: RequeriedWindow) -> bool:
        """Whether it is known what the query reads. Where that is another than before, its changes count from here on,
        and the question comes after."""
        if not asked.unsure:
            return True
        asked.unsure = False
        is_learned = self._trying({instance: asked}, partial(self._learn_again, instance, asked))
        asked.unsure = asked.unsure or not is_learned
        return is_learned and self._windows.is_wanted(instance, asked)

    def _learn_again(self, instance: int, asked: RequeriedWindow) -> None:
        try:
            query = self._learn(asked.query)
        except (SqlError, PermissionDenied) as error:
            self._give_up(instance, error.message)
            return
        self._windows.learned(asked, query)

    def _trying(self, due: Mapping[int, RequeriedWindow], ask: Callable[[], None]) -> bool:
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
            _log.warning("could not query the source again: %s", error)
        except Exception as error:
            retry_s, reason = time.monotonic() + _RETRY_S, repr(error)
            _log.exception("could not query the source again")
        self._windows.failed(due, retry_s, reason)
        return False

    # — the whole

    def _ask_whole(self, instance: int, asked: RequeriedWindow, limit_s: float) -> None:
        def ask(cancellation: Cancellation) -> Answer:
            return self._source.query(asked.query.asked, asked.query.params, cancellation)

        answer = self._understood(instance, asked, ask, limit_s)
        if answer is None:
            return
        self._logged(answer.position)
        record = self._record(instance, asked, answer)
        if record is not None:
            self._settle()  # many answers at once would stand before the next commit in the log
            self._log_answers([(asked, record)])

    def _record(self, instance: int, asked: RequeriedWindow, answer: Answer) -> AnswerRecord | None:
        """None where it is too large: then the window ends."""
        if len(answer.rows) > self._limits.result_rows_max:
            self._give_up(instance, too_large(self._limits.result_rows_max))
            return None
        asked.rows = len(answer.rows)
        renamed = self._windows.renamed(asked, answer.position)
        return AnswerRecord(instance, answer.position, tuple(answer.rows), renamed=renamed)

    def _ask_together(self, group: dict[int, RequeriedWindow], limit_s: float) -> None:
        """One question for several windows, which are taken out of the group as they are done. Those that are left are
        to be asked in halves: where one of them fails, or all take too long, the source does not say whose fault it is.
        """
        questions = [(asked.query.asked, asked.query.params) for asked in group.values()]
        began_s = time.monotonic()
        try:
            answers = self._source.query_together(questions, self._windows.cancellable_together(group, limit_s))
        except (SqlError, LimitExceeded, PermissionDenied):
            return
        _log.debug("%d windows: the source answered them together", len(group))
        for asked in group.values():
            asked.spent_s += (time.monotonic() - began_s) / len(group)
        self._logged(answers[0].position)
        records = list[tuple[RequeriedWindow, AnswerRecord]]()
        for (instance, asked), answer in zip(list(group.items()), answers, strict=True):
            record = self._record(instance, asked, answer) if _fits(asked.query, answer, 1) else None
            if record is not None:
                records.append((asked, record))
            elif instance not in self._windows.asked:
                del group[instance]
        self._settle()
        self._log_answers(records)
        for _, record in records:
            del group[record.instance]

    def _understood(
        self,
        instance: int,
        asked: RequeriedWindow,
        ask: Callable[[Cancellation], Answer | None],
        limit_s: float,
        times: int = 1,
    ) -> Answer | None:
        """The answer; none where the source has none, or not of these columns and keys: then the window ends."""
        began_s = time.monotonic()
        try:
            answer = ask(self._windows.cancellable(instance, asked, limit_s))
            took_s = time.monotonic() - began_s
            asked.slow = took_s > QUICK_S
            asked.spent_s += took_s
            _log.debug("window %d: the source answered in %.1f ms", instance, took_s * 1000)
        except TooSlow as error:
            asked.slow = True
            if limit_s < self.limit_s:
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

    def _log_answers(self, answers: Sequence[tuple[RequeriedWindow, AnswerRecord]]) -> None:
        """One that no client wants any more is left out: it would be taken for that of who asks next."""
        with ExitStack() as held:
            for asked, _ in answers:
                held.enter_context(asked.logging)
            wanted = [(asked, answer) for asked, answer in answers if self._windows.is_wanted(answer.instance, asked)]
            offsets = self._log([answer for _, answer in wanted])
            for (asked, answer), offset in zip(wanted, offsets, strict=True):
                self._windows.answered(asked, answer.position, offset)
                what = "whole" if answer.parts is None else f"in {len(answer.parts)} parts"
                told = answer.instance, what, len(answer.rows), answer.position
                _log.debug("window %d: logged its answer %s, %d rows at position %d", *told)

    # — parts of it

    def _ask_parts(self, due: dict[int, RequeriedWindow], limit_s: float) -> list[tuple[int, RequeriedWindow]]:
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

    def _ask_part(self, instance: int, asked: RequeriedWindow, moment: Moment, limit_s: float) -> bool:
        """Whether that did: the moment may have passed, many parts may come to too many rows, and the log, on its way
        to the moment, may have told of a change that has no parts."""
        selection = asked.query.selection
        assert selection is not None
        if not self._windows.is_wanted(instance, asked):
            return True
        wanted = self._windows.wanted(asked, moment.position)
        if wanted is None:
            return False
        if not wanted:
            self._windows.answered(asked, moment.position, asked.offset)
            return True
        question = selection.part(wanted)
        answer = self._understood(
            instance, asked, lambda ending: moment.query(question, asked.query.params, ending), limit_s, len(wanted)
        )
        if answer is None:
            return instance not in self._windows.asked
        asked.rows += len(answer.rows)
        if asked.rows > self._limits.result_rows_max:
            return False
        parts = tuple((selection.asks[ask], tuple(values)) for ask, values in wanted.items())
        rows = tuple(_once(answer.rows, selection))
        renamed = self._windows.renamed(asked, moment.position)
        self._log_answers([(asked, AnswerRecord(instance, moment.position, rows, parts, renamed))])
        return True


def _groups(due: Iterable[tuple[int, RequeriedWindow]]) -> Iterator[dict[int, RequeriedWindow]]:
    """Those that may be asked for as one question."""
    templates: dict[str, dict[int, RequeriedWindow]] = {}
    for instance, asked in due:
        if asked.slow:
            yield {instance: asked}
            continue
        group = templates.setdefault(asked.query.template, {})
        group[instance] = asked
        if len(group) == TOGETHER_MAX:
            yield templates.pop(asked.query.template)
    yield from templates.values()


def _halves(group: Mapping[int, RequeriedWindow]) -> Iterator[dict[int, RequeriedWindow]]:
    every, half = list(group.items()), (len(group) + 1) // 2
    return (dict(part) for part in (every[:half], every[half:]) if part)


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
