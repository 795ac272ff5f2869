"""The conformance suite on an SQLite database without a WAL, where transactions may merge and a reader keeps writers
waiting. What is left out is what asks that they are told apart (also just where an answer was read: who asked it knows
that the transaction goes on, and asks again), or writes beside a reader in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import conformance
from tests.sources.conformance import SampleDatabase, closing
from tests.sources.replica import Replica, drained
from tests.sources.test_conformance import sqlite_database

LEFT_OUT = {
    "test_an_answer_is_right_for_its_position",
    "test_transactions_come_whole_and_in_order",
    "test_the_same_is_told_again_to_who_asks_again",
    "test_a_snapshot_comes_in_batches",
    "test_positions_are_behind_commits",
    "test_a_table_that_goes_away_says_why",
}
assert vars(conformance).keys() >= LEFT_OUT
globals().update(
    {name: test for name, test in vars(conformance).items() if name.startswith("test_") and name not in LEFT_OUT}
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SampleDatabase]:
    with closing(sqlite_database(tmp_path, "DELETE")) as it:
        yield it


def test_rows_that_were_read_between_two_commits_are_not_told_again(database: SampleDatabase) -> None:
    """Though nobody looked at the changes meanwhile, and nothing tells the two apart."""
    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    source = database.source()
    source.capture("t")
    start = source.position()
    database.run("INSERT INTO t VALUES (1, 1)")
    replica = Replica(source, "t")
    database.run("UPDATE t SET n = 2", "INSERT INTO t VALUES (2, 2)")
    items = drained(source, start)
    replica.apply(items)
    replica.holds(source.query("SELECT * FROM t").rows)
