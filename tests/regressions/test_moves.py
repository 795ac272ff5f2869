"""The smallest lives in which a query went wrong that had been moved to another strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.model.limits import DEFAULT, Limits
from tests.support.byhand import Works

SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"
PLAIN = "SELECT id, n FROM t"


@pytest.fixture
def limits() -> Limits:
    return replace(DEFAULT, template_idle_ms=0)


@pytest.fixture
def works(tmp_path: Path, limits: Limits) -> Iterator[Works]:
    made = Works(tmp_path, limits=limits)
    made.write(SCHEMA, "INSERT INTO t VALUES (1, 1), (2, 2)")
    yield made
    made.close()


def _moved(works: Works, sql: str) -> str:
    id = works.subscribe(sql)
    works.run()
    works.pipeline.moves.ask(works.watched[id].planned.template.id, "by a test")
    works.run()
    return id


def _goes_on(works: Works) -> None:
    works.subscribe(PLAIN)
    works.run()
    works.write("UPDATE t SET n = n")
    works.run()
    works.check()


def test_a_moved_query_whose_table_was_made_anew_is_followed_again(works: Works) -> None:
    """The cells followed it, and its clients were told that the source answers: they waited for positions for ever."""
    id = _moved(works, PLAIN)
    works.write("DROP TABLE t")
    works.run()
    assert works.watched.pop(id).live.state == "closed"
    works.write(SCHEMA, "INSERT INTO t VALUES (1, 1)")
    _goes_on(works)


def test_a_moved_query_that_was_released_is_followed_again(works: Works) -> None:
    works.unsubscribe(_moved(works, PLAIN), forget=True)
    works.run()
    works.pipeline.release()
    _goes_on(works)


@pytest.mark.parametrize("limits", [replace(DEFAULT, partial_rows_min=0)])
def test_a_query_on_a_table_held_by_key_is_not_moved(works: Works) -> None:
    """To and fro, its cell had let go of the rows; of the keys it was known that they had been fetched."""
    id = _moved(works, "SELECT id, n FROM t WHERE id = 1")
    works.pipeline.moves.follow(works.watched[id].planned.template.id, "back by a test")
    works.run()
    works.check()
