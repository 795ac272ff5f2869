"""The smallest lives in which a window that had to begin anew never did, or seemed to be ending ever after.

Here a table that is held by key becomes whole: its windows are lost, and asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.model.limits import DEFAULT
from headwater.pipeline.records.control import Schema
from tests.support.byhand import Works

LIMITS = replace(DEFAULT, partial_rows_min=0)
BY_KEY = "SELECT id, n FROM t WHERE id = 1"
WHOLE = "SELECT count(*) AS many FROM t"
ANSWERED = "SELECT id, rank() OVER (ORDER BY n) AS place FROM t"


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path, limits=LIMITS)
    made.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    yield made
    made.close()


def test_who_comes_back_to_a_lost_window_that_nobody_wanted_has_its_rows(works: Works) -> None:
    """Its only subscriber left before it was asked for again: it counted as asked for, and never was."""
    first = works.subscribe(BY_KEY)
    works.run()
    works.subscribe(WHOLE)
    works._run()
    works.unsubscribe(first)
    works.begin_again()
    works.subscribe(BY_KEY)
    works.run()
    works.check()


def test_a_lost_window_that_began_anew_does_not_seem_to_end(works: Works) -> None:
    """Who came next waited half a minute for an end that had been read before, and got no rows meanwhile."""
    id = works.subscribe(ANSWERED)
    works.run()
    with works.pipeline.capture.lock:
        works.pipeline.capture.end(Schema("t", None, "changes are missing", lost=True))
    works.run()
    works.check()
    assert not works.pipeline.is_ending(works.watched[id].planned)
