"""The smallest lives of a server that the fuzzer found wrong when it went through all of one."""

from __future__ import annotations

from pathlib import Path

from tests.client.test_live import Desk
from tests.support.byhand import Works

RANKED = "SELECT n, rank() OVER (ORDER BY n) AS place FROM t"
PLAIN = ("SELECT n FROM t", "SELECT n + 1 AS m FROM t", "SELECT n FROM t ORDER BY n", "SELECT n, n AS k FROM t")


def test_an_answer_counts_only_once_every_cell_of_the_session_has_passed_it(tmp_path: Path) -> None:
    """Its own cell was ahead of the other: the rows before were called right, and at first none at all."""
    works = Works(tmp_path, cells=2)
    works.write("CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)")
    ranked = works.watched[works.subscribe(RANKED)]
    home = works.pipeline.cell_of(ranked.planned)
    works.subscribe(next(sql for sql in PLAIN if works.pipeline.cell_of(works.pipeline.plan(sql)) != home))
    works.run()
    works.write("INSERT INTO t VALUES (2)")
    works.capture()
    works.cells[1 - home].turn(0)
    works.ask()
    works.cells[home].turn(0)
    works.look()
    assert len(ranked.live.rows) == 1 and ranked.live.position < works.source.position()
    works.run()
    works.check()
    works.close()


def test_an_answer_that_is_asked_for_twice_in_a_step_is_shown_once(tmp_path: Path) -> None:
    """The server went away after the origin had answered: its next life subscribed again, and every row came twice."""
    works = Works(tmp_path)
    works.write("CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)")
    ranked = works.watched[works.subscribe(RANKED)]
    works.ask()
    works.crash()
    works.resume()
    works.run()
    assert [dict(row) for row in ranked.live.rows] == [{"n": 1, "place": 1}]
    works.close()


def test_a_query_is_not_called_right_before_its_rows_are_there() -> None:
    """The cells had reached the position before it was answered; between the word that it was and the next of them,
    `position` and `wait` spoke of rows that were still to be applied."""
    desk = Desk()
    desk.a.opened(("n",), "requery")
    desk.session.progress(20)
    desk.change("a", 2, 20, 3)
    desk.session.ready("a", 20)
    assert desk.a.position == 10 and len(desk.a.rows) == 2
    desk.session.progress(20)
    assert desk.a.position == 20 and len(desk.a.rows) == 3


def test_an_answer_that_is_shown_again_is_right_for_the_position_it_was_given_at(tmp_path: Path) -> None:
    """The next life of the server showed it as of where the log was by then, before the origin was asked again."""
    works = Works(tmp_path)
    works.write("CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)")
    ranked = works.watched[works.subscribe(RANKED)]
    works.run()
    works.write("INSERT INTO t VALUES (2)")
    works.capture()
    works.crash()
    works.resume()
    while works.cells[0].turn(0):
        works.look()
    works.look()
    assert len(ranked.live.rows) == 1 and ranked.live.position < works.source.position()
    works.run()
    works.check()
    works.close()


def test_columns_that_came_before_anything_was_logged_are_known_after_a_crash(tmp_path: Path) -> None:
    """The log of a new database told of no position: the next life began behind the change, and could log no row."""
    works = Works(tmp_path)
    works.write("CREATE TABLE t (n INTEGER)")
    works.subscribe(RANKED)
    works.write("ALTER TABLE t ADD COLUMN m INTEGER DEFAULT 7")
    works.crash()
    works.resume()
    works.write("INSERT INTO t (n) VALUES (1)")
    works.run()
    works.check()
    works.close()
