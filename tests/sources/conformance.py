"""What every source must do, whatever the database: imported by `test_conformance`, run against each of them.

SQL is kept to what all of them read alike; a `SampleDatabase` says the few words that differ.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError, SqlError
from headwater.model.value import Row, Type
from headwater.sources.source import Item, SchemaChange, Source
from tests.sources.replica import Replica, drained, exact

Execute = Callable[..., object]
_PATIENCE_S = 120.0


@dataclass(slots=True)
class SampleDatabase:
    """A database, and sources on it. `foreign` is a transaction as another program makes it."""

    open: Callable[[], Source]
    foreign: Callable[[], AbstractContextManager[Execute]]
    directory: Path
    mark: str  # of the first parameter
    bytes: str  # the type for bytes
    real: str  # the type for floats
    sources: list[Source] = field(default_factory=list)

    def source(self) -> Source:
        source = self.open()
        source.attach(self.directory)
        self.sources.append(source)
        return source

    def run(self, *statements: str) -> None:
        """All in one transaction."""
        with self.foreign() as execute:
            for statement in statements:
                execute(statement)

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _shop(database: SampleDatabase) -> Source:
    database.run(
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, n {database.real}, y {database.bytes})",
        "INSERT INTO t (id, a) VALUES (1, 'one'), (2, 'two')",
    )
    source = database.source()
    source.capture("t")
    return source


def _changes(items: Sequence[Item]) -> list[Change]:
    return [change for item in items if isinstance(item, Transaction) for change in item.changes]


def _until(source: Source, after: int, found: Callable[[Item], bool]) -> list[Any]:
    items: list[Any] = []
    until_s = time.monotonic() + _PATIENCE_S
    while not any(found(item) for item in items):
        assert time.monotonic() < until_s, items
        items += source.changes(after, 1)
        after = max([after, *(item.position for item in items)])
    return items


# Tables


def test_tables_have_columns_types_and_keys(database: SampleDatabase) -> None:
    source = _shop(database)
    (table,) = source.tables()
    assert (table.name, table.names, table.key) == ("t", ("id", "a", "n", "y"), ("id",))
    assert [column.type for column in table.columns] == [Type.INTEGER, Type.TEXT, Type.REAL, Type.BLOB]


def test_capturing_twice_is_capturing_once(database: SampleDatabase) -> None:
    source = _shop(database)
    assert source.capture("t") == source.capture("t")
    start = source.position()
    source.execute("DELETE FROM t WHERE id = 1")
    assert len(_changes(drained(source, start))) == 1


def test_a_table_that_is_not_there_cannot_be_captured(database: SampleDatabase) -> None:
    source = _shop(database)
    with pytest.raises(SourceError, match="no table 'nope'"):
        source.capture("nope")
    database.run("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(SourceError, match="view"):
        source.capture("v")


def test_a_snapshot_of_a_table_that_is_not_captured_is_refused(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run("CREATE TABLE other (id INTEGER PRIMARY KEY)")
    with pytest.raises(SourceError, match="not captured"):
        source.snapshot("other")


# Changes


def test_changes_have_the_rows_before_and_after(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    database.run("INSERT INTO t (id, a) VALUES (3, 'three')")
    database.run("UPDATE t SET a = 'zwei' WHERE id = 2")
    database.run("UPDATE t SET id = 4 WHERE id = 3")
    database.run("DELETE FROM t WHERE id = 1")
    assert _changes(drained(source, start)) == [
        Change("t", None, (3, "three", None, None)),
        Change("t", (2, "two", None, None), (2, "zwei", None, None)),
        Change("t", (3, "three", None, None), (4, "three", None, None)),
        Change("t", (1, "one", None, None), None),
    ]


def test_transactions_come_whole_and_in_order(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    database.run("INSERT INTO t (id) VALUES (10), (11)", "DELETE FROM t WHERE id = 10")
    database.run("INSERT INTO t (id) VALUES (12)")
    found = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    assert [len(one.changes) for one in found] == [3, 1]
    assert start < found[0].position < found[1].position <= source.position()


def test_what_is_rolled_back_leaves_no_trace(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    with suppress(ZeroDivisionError), database.foreign() as execute:
        execute("DELETE FROM t")
        raise ZeroDivisionError
    with database.foreign() as execute:
        execute("INSERT INTO t (id) VALUES (20)")
        execute("SAVEPOINT s")
        execute("INSERT INTO t (id) VALUES (21)")
        execute("ROLLBACK TO SAVEPOINT s")
        execute("INSERT INTO t (id) VALUES (22)")
    changes = _changes(drained(source, start))
    assert [change.new[0] for change in changes if change.new] == [20, 22]
    assert len(changes) == 2


def test_a_table_that_is_not_captured_is_not_reported(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run("CREATE TABLE other (id INTEGER PRIMARY KEY)")
    start = source.position()
    database.run("INSERT INTO other VALUES (1)", "INSERT INTO t (id) VALUES (5)")
    assert [change.table for change in _changes(drained(source, start))] == ["t"]


def test_tables_are_captured_one_after_the_other(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    database.run("CREATE TABLE u (id INTEGER PRIMARY KEY, a TEXT)", "INSERT INTO u VALUES (1, 'x')")
    database.run("INSERT INTO t (id) VALUES (6)")
    source.capture("u")
    database.run("UPDATE u SET a = 'y'", "UPDATE t SET a = 'six' WHERE id = 6")
    changes = _changes(drained(source, start))
    assert [(change.table, change.old is None) for change in changes] == [("t", True), ("u", False), ("t", False)]


def test_the_same_is_told_again_to_who_asks_again(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    for number in range(30, 35):
        database.run(f"INSERT INTO t (id, a) VALUES ({number}, 'x')", f"UPDATE t SET a = 'y' WHERE id = {number}")
    first = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    again = [item for item in drained(source, start) if isinstance(item, Transaction) and item.changes]
    assert first == again
    middle = first[2].position
    later = [item for item in drained(source, middle) if isinstance(item, Transaction) and item.changes]
    assert later == first[3:]


def test_a_commit_wakes_who_waits(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    drained(source, start)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(_until(source, start, lambda item: bool(_changes([item])))))
    thread.start()
    source.execute("DELETE FROM t WHERE id = 2")
    thread.join(_PATIENCE_S)
    assert [change.new for change in _changes(found)] == [None]


def test_changes_return_in_time_when_nothing_happens(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    drained(source, start)
    assert _changes(source.changes(source.position(), 0)) == []


def test_what_happens_while_nobody_looks_is_told_later(database: SampleDatabase) -> None:
    source = _shop(database)
    replica = Replica(source, "t")
    database.run("INSERT INTO t (id, a) VALUES (7, 'before')")
    replica.apply(drained(source, replica.position))
    source.forget(replica.position)
    database.run("UPDATE t SET a = 'seen, not kept' WHERE id = 7")
    drained(source, replica.position)
    later = database.source()
    if later is not source:
        database.sources.remove(source)
        source.close()
    database.run("UPDATE t SET a = 'while away' WHERE id = 7", "DELETE FROM t WHERE id = 1")
    later.capture("t")
    replica.apply(drained(later, replica.position))
    replica.holds(later.query("SELECT * FROM t").rows)


# Values


_VALUES: list[Row] = [
    (1, "", 0.0, b""),
    (2, None, None, None),
    (-(2**31), "a,b\n\"c\"\t\\ 'd' \\. NULL", -1.5, b"\x00\xff\\x00"),
    (2**31 - 1, "größer ☃ 𝄞", 1e-300, bytes(range(256))),
    (3, "\\N", float("inf"), b"\\x"),
    (4, " x ", 0.1, b"n"),
    (5, "x" * 5000, 1.7976931348623157e308, b"y" * 5000),
]


def test_values_are_the_same_by_stream_snapshot_and_query(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run("DELETE FROM t")
    start = source.position()
    marks = ", ".join(("?" if database.mark == "?" else f"${n}") for n in range(1, 5))
    source.executemany(f"INSERT INTO t VALUES ({marks})", _VALUES)
    streamed = [change.new for change in _changes(drained(source, start)) if change.new]
    assert [exact(row) for row in streamed] == [exact(row) for row in _VALUES]
    Replica(source, "t").holds(_VALUES)
    answer = source.query("SELECT id, a, n, y FROM t")
    assert Counter(map(exact, answer.rows)) == Counter(map(exact, _VALUES))


def test_a_snapshot_comes_in_batches(database: SampleDatabase) -> None:
    source = _shop(database)
    source.executemany(f"INSERT INTO t (id) VALUES ({database.mark})", [(number,) for number in range(100, 125)])
    with source.snapshot("t", rows_max=10) as snapshot:
        sizes = [batch.num_rows for batch in snapshot]
        assert snapshot.table == source.capture("t")
    assert sizes == [10, 10, 7]


def test_a_source_knows_about_how_many_rows_there_are(database: SampleDatabase) -> None:
    source = _shop(database)
    source.executemany(f"INSERT INTO t (id) VALUES ({database.mark})", [(number,) for number in range(3, 1001)])
    database.run("ANALYZE t")
    assert source.rows_about("t") == 1000
    with pytest.raises(SourceError, match="nowhere"):
        source.rows_about("nowhere")


def test_tables_can_be_captured_together(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run("CREATE TABLE u (id INTEGER PRIMARY KEY, b TEXT)")
    assert [table.name for table in source.capture_all(["t", "u"])] == ["t", "u"]
    assert source.capture_all(["u", "t"]) == [source.capture("u"), source.capture("t")]
    with pytest.raises(SourceError, match="nowhere"):
        source.capture_all(["u", "nowhere"])


def test_a_source_knows_how_many_different_values_a_column_has(database: SampleDatabase) -> None:
    source = _shop(database)
    assert source.statistics(["t"]).keys() <= {"t"}
    rows = [(number, str(number % 50)) for number in range(3, 1001)]
    marks = ", ".join(("?" if database.mark == "?" else f"${n}") for n in (1, 2))
    source.executemany(f"INSERT INTO t (id, a) VALUES ({marks})", rows)
    database.run("CREATE INDEX by_a ON t (a)", "ANALYZE t")
    found = source.statistics(["t"])["t"]
    assert found.rows == 1000
    assert found.columns["a"].distinct == pytest.approx(52, rel=0.1)
    with pytest.raises(SourceError, match="nowhere"):
        source.statistics(["nowhere"])


def test_an_empty_table_has_a_snapshot(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run("DELETE FROM t")
    Replica(source, "t").holds([])


# Positions


def test_positions_are_behind_commits(database: SampleDatabase) -> None:
    source = _shop(database)
    before = source.position()
    first = source.execute(f"INSERT INTO t (id) VALUES ({database.mark})", (40,))
    second = source.executemany(f"INSERT INTO t (id) VALUES ({database.mark})", [(41,), (42,)])
    with source.transaction() as tx:
        tx.execute("DELETE FROM t WHERE id = 40")
        tx.executemany(f"DELETE FROM t WHERE id = {database.mark}", [(41,), (42,)])
    assert first < second < tx.position <= source.position()
    told = [item.position for item in drained(source, before) if _changes([item])]
    assert told[0] <= first < told[1] <= second < told[2] <= tx.position


def test_an_answer_is_right_for_its_position(database: SampleDatabase) -> None:
    """While others write: what the changes up to its position give is what it says."""
    source = _shop(database)
    replica = Replica(source, "t")
    items: list[Item] = []
    stop = threading.Event()

    def take() -> None:
        after = replica.position
        while not stop.is_set() or after < source.position():
            found = source.changes(after, 0.05)
            items.extend(found)
            after = max([after, *(item.position for item in found)])

    threads = [threading.Thread(target=_write, args=(database, seed, 25)) for seed in range(3)]
    taker = threading.Thread(target=take)
    for thread in [taker, *threads]:
        thread.start()
    answers = []
    while any(thread.is_alive() for thread in threads):
        answers.append(source.query("SELECT * FROM t"))
        with source.moment() as moment:
            answers += filter(None, [moment.query("SELECT * FROM t"), moment.query("SELECT * FROM t")])
    answers.append(source.query("SELECT * FROM t"))
    stop.set()
    taker.join(_PATIENCE_S)
    for answer in sorted(answers, key=lambda answer: answer.position):
        replica.apply([item for item in items if replica.position < item.position <= answer.position])
        replica.holds(answer.rows)


def test_a_moment_is_held_or_gone_while_others_write(database: SampleDatabase) -> None:
    """And the changes up to it can be had meanwhile."""
    source = _shop(database)
    start = source.position()
    database.run("INSERT INTO t (id, a) VALUES (3, 'three')")
    with source.moment() as moment:
        told = _until(source, start, lambda item: item.position >= moment.position)
        assert [change.new[0] for change in _changes(told) if change.new] == [3]
        now = moment.query("SELECT id FROM t ORDER BY id")
        assert now is not None and (now.rows, now.position) == ([(1,), (2,), (3,)], moment.position)
        writing = threading.Thread(target=database.run, args=("DELETE FROM t WHERE id = 1",))
        writing.start()  # a database may let it wait until the moment is over
        writing.join(0.2)
        still = moment.query("SELECT id FROM t ORDER BY id")
        assert still is None or still.rows == now.rows
    writing.join(_PATIENCE_S)
    with source.moment() as later:
        after = later.query("SELECT id FROM t ORDER BY id")
    assert after is not None and after.rows == [(2,), (3,)] and later.position > moment.position


def test_a_moment_that_somebody_left_in_haste_holds_nothing(database: SampleDatabase) -> None:
    """Neither those who write, nor those who ask next, who have the rows of now."""
    source = _shop(database)
    with pytest.raises(LookupError), source.moment() as moment:
        raise LookupError
    database.run("DELETE FROM t WHERE id = 1")
    answer = source.query("SELECT id FROM t")
    assert answer.rows == [(2,)] and answer.position > moment.position
    assert source.reads("SELECT id FROM t").tables


def _write(database: SampleDatabase, seed: int, transactions: int) -> None:
    """Keys of its own, so that writers do not wait for each other."""
    chance = random.Random(seed)
    for number in range(transactions):
        id = 1000 * (seed + 1) + chance.randrange(8)
        statement = chance.choice(
            [
                f"INSERT INTO t (id, a) VALUES ({id}, '{number}') ON CONFLICT (id) DO UPDATE SET a = '{number}'",
                f"UPDATE t SET a = '{number}' WHERE id = {id}",
                f"DELETE FROM t WHERE id = {id}",
            ]
        )
        database.run(statement, f"INSERT INTO t (id) VALUES ({100_000 + 1000 * seed + number})")


def test_snapshots_and_changes_fit_together_while_others_write(database: SampleDatabase) -> None:
    source = _shop(database)
    start = source.position()
    threads = [threading.Thread(target=_write, args=(database, seed, 25)) for seed in range(3)]
    for thread in threads:
        thread.start()
    replicas = [Replica(source, "t") for _ in range(4)]
    for thread in threads:
        thread.join(_PATIENCE_S)
    items = drained(source, start)
    rows = source.query("SELECT * FROM t").rows
    for replica in replicas:
        replica.apply(items)
        replica.holds(rows)


# Queries and writes


def test_queries_take_parameters(database: SampleDatabase) -> None:
    source = _shop(database)
    answer = source.query(f"SELECT a, id FROM t WHERE id = {database.mark}", (1,))
    assert (answer.columns, answer.rows) == (("a", "id"), [("one", 1)])
    assert source.query("SELECT a FROM t WHERE id = :id", {"id": 2}).rows == [("two",)]


@pytest.mark.parametrize("sql", ["SELECT nope FROM t", "SELEC", "DELETE FROM t", ""])
def test_wrong_queries_get_the_words_of_the_database(database: SampleDatabase, sql: str) -> None:
    source = _shop(database)
    with pytest.raises((SqlError, SourceError)) as error:
        source.query(sql)
    assert str(error.value)
    assert len(source.query("SELECT * FROM t").rows) == 2


def test_all_columns_of_a_table_are_selected_by_their_names(database: SampleDatabase) -> None:
    source = _shop(database)
    database.run(
        'CREATE TABLE "a.b" ("the key" INTEGER PRIMARY KEY, "c""d" TEXT)', """INSERT INTO "a.b" VALUES (1, 'x')"""
    )
    [table] = [one for one in source.tables() if "a.b" in one.name]
    answer = source.query(source.select_all(table))
    assert (answer.columns, answer.rows) == (table.names, [(1, "x")])


def test_prepare_runs_nothing(database: SampleDatabase) -> None:
    source = _shop(database)
    source.prepare("SELECT a FROM t WHERE id = 1")
    with pytest.raises(SqlError, match="nope"):
        source.prepare("SELECT nope FROM t")


@pytest.mark.parametrize(
    ("sql", "columns", "tables"),
    [
        ("SELECT a FROM t", ("a",), {"t": {"a"}}),
        ("SELECT count(*) AS n FROM t", ("n",), {"t": {""}}),
        ("SELECT t.a, u.id FROM t JOIN u ON u.t = t.id", ("a", "id"), {"t": {"id", "a"}, "u": {"t", "id"}}),
        ("SELECT * FROM v", ("a",), {"t": {"a", "n"}}),
        ("WITH c AS (SELECT n FROM t) SELECT n + 1 AS z FROM c;", ("z",), {"t": {"n"}}),
    ],
)
def test_what_a_query_reads(
    database: SampleDatabase, sql: str, columns: tuple[str, ...], tables: dict[str, set[str]]
) -> None:
    source = _shop(database)
    database.run("CREATE TABLE u (id INTEGER PRIMARY KEY, t INTEGER)", "CREATE VIEW v AS SELECT a FROM t WHERE n > 1")
    reads = source.reads(sql)
    assert reads.columns == columns
    assert reads.tables == {name: frozenset(names) for name, names in tables.items()}


@pytest.mark.parametrize(
    ("sql", "row_by_row"),
    [
        ("SELECT a, upper(a) AS b FROM t WHERE n > 1", True),
        ("SELECT a FROM t WHERE id IN (SELECT id FROM t)", True),
        ("SELECT count(*) AS n FROM t", False),
        ("SELECT max(a) AS n FROM t", False),
        ("SELECT row_number() OVER (ORDER BY a) AS n FROM t", False),
        ("SELECT a FROM v", False),
    ],
)
def test_whether_a_query_goes_row_by_row(database: SampleDatabase, sql: str, row_by_row: bool) -> None:
    source = _shop(database)
    database.run("CREATE VIEW v AS SELECT a FROM t WHERE n > 1")
    assert source.reads(sql).row_by_row is row_by_row


def test_two_columns_of_one_name_are_refused(database: SampleDatabase) -> None:
    source = _shop(database)
    with pytest.raises(SqlError, match="two columns are named id"):
        source.reads("SELECT x.id, y.id FROM t x, t y")


def test_a_transaction_that_raises_is_rolled_back(database: SampleDatabase) -> None:
    source = _shop(database)
    with pytest.raises(ZeroDivisionError), source.transaction() as tx:
        tx.execute("DELETE FROM t")
        raise ZeroDivisionError
    with pytest.raises(SourceError, match="already open"), source.transaction():
        source.execute("DELETE FROM t")
    assert len(source.query("SELECT * FROM t").rows) == 2


# Shapes


def test_an_added_column_is_told_with_what_older_rows_hold(database: SampleDatabase) -> None:
    source = _shop(database)
    replica = Replica(source, "t")
    database.run("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7")
    replica.apply(_until(source, replica.position, lambda item: isinstance(item, SchemaChange)))
    assert replica.table.names == ("id", "a", "n", "y", "b")
    database.run("INSERT INTO t (id, b) VALUES (50, 8)", "UPDATE t SET b = 9 WHERE id = 1")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT * FROM t").rows)


def test_a_column_that_is_used_at_once_is_told_first(database: SampleDatabase) -> None:
    source = _shop(database)
    replica = Replica(source, "t")
    database.run("INSERT INTO t (id) VALUES (51)", "ALTER TABLE t ADD COLUMN b INTEGER")
    database.run("UPDATE t SET b = 1 WHERE id = 51", "DELETE FROM t WHERE id = 2")
    replica.apply(drained(source, replica.position))
    replica.holds(source.query("SELECT * FROM t").rows)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP TABLE t", "dropped"),
        ("ALTER TABLE t RENAME TO u", "renamed to u"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "column a"),
    ],
)
def test_a_table_that_goes_away_says_why(database: SampleDatabase, statement: str, reason: str) -> None:
    source = _shop(database)
    start = source.position()
    database.run("INSERT INTO t (id) VALUES (60)")
    database.run(statement)
    items = _until(source, start, lambda item: isinstance(item, SchemaChange))
    assert [change.new and change.new[0] for change in _changes(items)] == [60]
    (end,) = [item for item in items if isinstance(item, SchemaChange)]
    assert end.after is None
    assert reason in end.reason


def test_a_table_of_the_same_name_is_captured_afresh(database: SampleDatabase) -> None:
    source = _shop(database)
    before = source.capture("t")
    start = source.position()
    database.run("DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, other TEXT)")
    items = _until(source, start, lambda item: isinstance(item, SchemaChange))
    table = source.capture("t")
    assert table.names == ("id", "other")
    assert table.schema_id > before.schema_id
    after = max(item.position for item in items)
    database.run("INSERT INTO t VALUES (1, 'new')")
    assert _changes(drained(source, after)) == [Change("t", None, (1, "new"))]


# The end


def test_detaching_removes_what_is_ours(database: SampleDatabase) -> None:
    source = _shop(database)
    assert source.detach()
    assert source.detach() == []


def test_a_closed_source_wakes_who_waits(database: SampleDatabase) -> None:
    source = _shop(database)
    drained(source, source.position())
    after, done = source.position(), threading.Event()
    drained(source, after)

    def wait() -> None:
        with suppress(SourceError):
            while source.changes(source.position(), 60):
                pass
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    database.sources.remove(source)
    source.close()
    assert done.wait(_PATIENCE_S)
    with pytest.raises(SourceError, match="closed"):
        source.position()


def test_a_source_has_a_name_that_stays(database: SampleDatabase) -> None:
    assert database.source().name == database.source().name
    assert all(database.sources[0].notes()) or database.sources[0].notes() == ()


@contextmanager
def closing(database: SampleDatabase) -> Iterator[SampleDatabase]:
    try:
        yield database
    finally:
        database.close()
