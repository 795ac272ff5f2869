"""The smallest lives of a server that the fuzzer found wrong when it went through all of one."""

from __future__ import annotations

from pathlib import Path

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
