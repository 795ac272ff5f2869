"""The smallest lives in which questions to the origin once went wrong, stepped by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.model.errors import SourceError
from headwater.pipeline.records.control import AnswerRecord
from headwater.plan.planner import Planned
from headwater.sources.cancellation import Cancellation, Cancelled
from headwater.sources.source import Answer
from headwater.sources.sqlite.memory import MemoryMoment
from headwater.sources.sqlite.questions.pool import QuestionProcess
from headwater.sources.sqlite.source import SqliteSource
from tests.support.byhand import Works
from tests.support.locks import ToldLock

SELECTIVE = "SELECT id, json_quote(n) AS q FROM t WHERE n IN (SELECT a FROM few)"
PLAIN = "SELECT id, json_quote(n) AS q FROM t"
WHOLE = "SELECT id, n, rank() OVER (ORDER BY n) AS r FROM t"


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path)
    made.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "CREATE TABLE few (a INTEGER)")
    made.write("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO few VALUES (1)")
    yield made
    made.close()


class Lane(threading.Thread):
    """Asks what is due, and is held where the origin has answered a question that has a word in it, until `end`."""

    def __init__(self, works: Works, word: str) -> None:
        super().__init__(target=works.ask, daemon=True)
        self.word = word
        self.is_held, self.goes_on = threading.Event(), threading.Event()

    def begin(self) -> None:
        self.start()
        assert self.is_held.wait(30)

    def hold(self, sql: str) -> bool:
        """Whether that was to be done."""
        if self.word in sql:
            self.is_held.set()
            assert self.goes_on.wait(30)
        return self.word in sql

    def end(self) -> None:
        self.goes_on.set()
        self.join(30)
        assert not self.is_alive()


class Failing(Lane):
    """Its question fails."""

    def hold(self, sql: str) -> bool:
        if super().hold(sql):
            raise Cancelled("no client waits for it")
        return False


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = MemoryMoment.query

    def asked(moment: MemoryMoment, sql: str, *more: Any) -> Answer | None:
        answer, lane = ask(moment, sql, *more), threading.current_thread()
        if isinstance(lane, Lane):
            lane.hold(sql)
        return answer

    monkeypatch.setattr(MemoryMoment, "query", asked)


def test_a_change_without_keys_that_comes_while_keys_are_asked_for_is_not_passed_over(works: Works) -> None:
    """The log came as far as the moment of the question, and with it a change that the whole is to be asked for: the
    keys to ask for went, so nothing was asked, and the rows of before were said to be right."""
    id = works.subscribe(SELECTIVE)
    works.run()
    assert works.watched[id].planned.strategy == "selective"
    works.write("UPDATE t SET n = 9 WHERE id = 1")
    works.capture()
    works.write("INSERT INTO few VALUES (2)")
    works.ask()
    works.run()
    works.check()


@pytest.mark.usefixtures("held")
def test_a_question_that_fails_leaves_alone_who_was_answered_at_its_moment(works: Works) -> None:
    """Two windows shared a moment. The first was answered, and asked for again by another lane; the question for the
    second failed, and with it the first was put again: a third lane answered it, and then the second lane did, with
    rows that were older."""
    works.subscribe(SELECTIVE)
    works.subscribe(PLAIN)
    works.run()
    works.write("UPDATE t SET n = 5 WHERE id = 1")
    works.capture()
    one, other = Failing(works, "FROM t WHERE t."), Lane(works, "few")
    one.begin()
    works.write("UPDATE t SET n = 6 WHERE id = 1")
    works.capture()
    other.begin()
    one.end()
    works.write("UPDATE t SET n = 1 WHERE id = 1")
    works.capture()
    works.ask()
    other.end()
    works.run()
    works.check()


def test_an_answer_is_not_taken_for_that_of_who_asks_next(works: Works) -> None:
    """It was about to be logged when its window ended; somebody asked again and was answered; then it was logged."""
    id = works.subscribe(WHOLE)
    works.run()
    requery, planned = works.pipeline._requery, works.watched[id].planned
    lock = requery.windows.asked[planned.instance.id].logging = ToldLock()  # type: ignore[assignment]
    log = requery._refresh._log

    def leave_and_return() -> None:
        works.pipeline.unsubscribe(planned.instance.id)
        works.pipeline.subscribe(works.pipeline.plan(WHOLE))
        works.write("UPDATE t SET n = 6 WHERE id = 1")
        works.capture()
        works.ask()
        lock.is_awaited.set()

    other = threading.Thread(target=leave_and_return, daemon=True)

    def overtaken(answers: Sequence[AnswerRecord]) -> list[int]:
        requery._refresh._log = log
        other.start()
        assert lock.is_awaited.wait(30)
        return log(answers)

    requery._refresh._log = overtaken
    works.write("UPDATE t SET n = 5 WHERE id = 1")
    works.capture()
    works.ask()
    other.join(30)
    works.run()
    works.check()


@pytest.mark.parametrize("sql", [PLAIN, WHOLE])
def test_a_query_whose_window_ends_just_after_it_was_planned_is_live(
    works: Works, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """What the origin was to be asked went with the window: whoever subscribed then never heard anything."""
    id = works.subscribe(sql)
    works.run()
    plan = works.pipeline.plan

    def outlived(*given: Any) -> Planned:
        planned = plan(*given)
        if id in works.watched:
            works.unsubscribe(id, forget=True)
            works.look()
        return planned

    monkeypatch.setattr(works.pipeline, "plan", outlived)
    works.subscribe(sql)
    works.write("UPDATE t SET n = 5 WHERE id = 1")
    works.run()
    works.check()


def test_a_view_that_is_redefined_between_plan_and_subscription_is_learned_again(works: Works) -> None:
    """What it read was found before, and nobody was told to find it again: its new table was never followed."""
    works.write("CREATE VIEW v AS SELECT id, n FROM t", "CREATE TABLE u (id INTEGER PRIMARY KEY, n INTEGER)")
    works.subscribe(PLAIN)
    works.run()
    plan = works.pipeline.plan

    def overtaken(sql: str, params: Any = ()) -> Planned:
        planned = plan(sql, params)
        works.write("DROP VIEW v", "CREATE VIEW v AS SELECT id, n FROM u")
        works.capture()
        return planned

    works.pipeline.plan = overtaken  # type: ignore[method-assign]
    works.subscribe("SELECT n FROM v")
    works.pipeline.plan = plan  # type: ignore[method-assign]
    works.run()
    works.check()
    works.write("INSERT INTO u VALUES (1, 7)")
    works.run()
    works.check()


@pytest.mark.parametrize("in_a_moment", [True, False])
def test_a_question_that_is_cancelled_as_it_is_answered_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_moment: bool
) -> None:
    """Its process was ended, and lent to the next question all the same: that was taken to have killed it, and a live
    query was closed for it."""
    reply, cancellation = QuestionProcess._reply, Cancellation()

    def cancelled_at_the_end(process: QuestionProcess, given: Cancellation) -> Any:
        found = reply(process, given)
        if found[0] is None and given is cancellation:
            cancellation.cancel()
        return found

    monkeypatch.setattr(QuestionProcess, "_reply", cancelled_at_the_end)
    source = SqliteSource(tmp_path / "t.db")
    try:
        if in_a_moment:
            with source.moment() as moment:
                moment.query("SELECT 1 AS one", (), cancellation)
                with pytest.raises(SourceError, match="previous query ended"):
                    moment.query("SELECT 2 AS two")
        else:
            source.query("SELECT 1 AS one", (), cancellation)
        assert source.query("SELECT 3 AS three").rows == [(3,)]
    finally:
        source.close()


@pytest.mark.parametrize(
    "join", ["JOIN u USING (k)", "NATURAL JOIN u", "FULL JOIN u USING (k)", "JOIN by_name USING (k)"]
)
def test_a_table_that_is_only_joined_by_the_names_of_its_columns_is_watched(join: str, tmp_path: Path) -> None:
    """SQLite's authorizer is not asked for columns that USING and NATURAL compare: changes of `u` were not noticed."""
    with headwater.connect("memory://", runner="inline", data_dir=tmp_path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER)")
        db.execute("CREATE TABLE u (k INTEGER, n INTEGER)")
        db.execute("CREATE VIEW by_name AS SELECT k FROM u NATURAL JOIN (SELECT k FROM u)")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
        live = db.query(f"SELECT t.id, count(*) OVER () AS c FROM t {join} WHERE t.id > 0", live=True)
        assert live.wait(db.execute("INSERT INTO u VALUES (1, 1)"))
        assert [row["id"] for row in live.rows] == ([1, 2] if "FULL" in join else [1])
        db.verify(live)
        assert live.wait(db.execute("UPDATE u SET k = 2"))
        assert [row["id"] for row in live.rows] == ([1, 2] if "FULL" in join else [2])
        db.verify(live)
