"""What is asked for after a change is enough: rows kept by their keys are the rows of the whole query, at every commit,
and in its order where it has one.

Without pipeline and log: the source tells changes, the selection says what to ask for, the origin answers, the window
takes the answer. Random tables of few values, so that keys meet, joins miss and match, and rows move between them.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.outbox import Outbox
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.requeried.answers import Answers
from headwater.engine.requeried.keyed_rows import keys_of
from headwater.engine.requeried.match_rows import packed
from headwater.model.change import Transaction
from headwater.model.coalesce import coalesce
from headwater.model.emission import Diff, RowChange, State
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.pipeline.planning.strategy import explain_with
from headwater.pipeline.requery.dirty_keys import DirtyKeys, Wanted
from headwater.pipeline.requery.key_renames import KeyRenames
from headwater.plan.requery_by_key import Unmapped, selection_of
from headwater.plan.requery_whole import touches
from headwater.sources.sqlite.memory import MemorySource
from headwater.sql.outline.tokens import NoOutline
from tests.support.fuzz import tries
from tests.support.oracle import applied

GOLDEN = Path(__file__).parent / "golden" / "selective.txt"
SCHEMA = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, x INTEGER, t TEXT)",
    "CREATE TABLE b (id TEXT PRIMARY KEY NOT NULL, x INTEGER, t TEXT)",
    "CREATE TABLE c (k INTEGER NOT NULL, l TEXT NOT NULL, x INTEGER, t TEXT, PRIMARY KEY (k, l))",
    "CREATE TABLE d (id INTEGER PRIMARY KEY, x INTEGER)",
)
SELECTS = (
    "SELECT a.id, date(a.t) AS day FROM a",
    "SELECT a.x, b.t FROM a, b WHERE a.x = b.x",
    "SELECT a.t, b.t AS bt FROM a JOIN b ON b.x = a.x AND soundex(a.t) = soundex(b.t)",
    "SELECT a.*, c.t AS ct FROM a LEFT JOIN c ON c.x = a.x",
    "SELECT a.id, c.t FROM a LEFT JOIN c USING (x)",
    "SELECT a.id, b.id AS bid, c.t FROM a LEFT JOIN b ON a.x = b.x LEFT JOIN c ON c.t = b.t AND c.k > 1",
    "SELECT p.id, q.id AS other FROM a p LEFT JOIN a q ON q.x = p.id AND q.t IS NOT p.t",
    "SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON b.x = a.x",
    "SELECT a.id, c.l FROM a FULL JOIN c ON (c.x = a.x)",
    "SELECT a.id, c.l, d.x AS dx FROM a FULL JOIN c ON c.x = a.x LEFT JOIN d ON d.id = c.x",
    "SELECT b.id, c.l FROM b NATURAL LEFT JOIN c",
    "SELECT a.id, (SELECT max(x) FROM d) AS top FROM a LEFT JOIN b ON b.x = a.x",
    "SELECT a.id, a.t AS at FROM a JOIN b ON b.x = a.x LEFT JOIN d ON d.x = a.x OR d.id = 1",
    "SELECT c.l, c.k + ? AS k FROM c JOIN d ON d.id = c.k",
)
ORDERS = (
    "",
    "{0}.x",
    "{0}.x DESC, {1}.x",
    "1",
    "2 DESC NULLS FIRST, {0}.t",
    "{0}.t COLLATE NOCASE DESC, 1 COLLATE NOCASE",
    "{1}.x IS NULL, ({0}.x) + 1 DESC NULLS LAST",
    "ifnull({1}.x, ?)",
)
CONDITIONS = (
    "",
    "date('200' || {0}.x || '-01-01') > '2001-01-01'",
    "{0}.x IS NULL OR {0}.x > 1",
    "{0}.t IS NULL",
    "{0}.t LIKE 'u%' OR {0}.x IN (SELECT x FROM d WHERE d.id > 1)",
)
VALUES = st.sampled_from([None, 0, 1, 2, 3])
TEXTS = st.sampled_from([None, "u", "v", "uv", "U", "Uv", ""])
WRITES = st.one_of(
    st.tuples(st.just("REPLACE INTO a VALUES (?, ?, ?)"), st.tuples(st.integers(1, 4), VALUES, TEXTS)),
    st.tuples(st.just("REPLACE INTO b VALUES (?, ?, ?)"), st.tuples(st.sampled_from("pqr"), VALUES, TEXTS)),
    st.tuples(
        st.just("REPLACE INTO c VALUES (?, ?, ?, ?)"),
        st.tuples(st.integers(0, 2), st.sampled_from("mn"), VALUES, TEXTS),
    ),
    st.tuples(st.just("REPLACE INTO d VALUES (?, ?)"), st.tuples(st.integers(1, 3), VALUES)),
    st.tuples(st.just("UPDATE OR IGNORE a SET id = ? WHERE id = ?"), st.tuples(st.integers(1, 4), st.integers(1, 4))),
    st.tuples(st.just("UPDATE OR IGNORE c SET l = ? WHERE k = ?"), st.tuples(st.sampled_from("mn"), st.integers(0, 2))),
    st.tuples(st.sampled_from([f"DELETE FROM {t} WHERE x IS ?" for t in "abcd"]), st.tuples(VALUES)),
)
TRANSACTIONS = st.lists(st.lists(WRITES, min_size=1, max_size=4), min_size=1, max_size=8)


class World:
    def __init__(self, sql: str, params: tuple[Any, ...] = ()) -> None:
        self.source = MemorySource()
        for statement in SCHEMA:
            self.source.execute(statement)
        self.tables = {table.name: self.source.capture(table.name) for table in self.source.tables()}
        self.sql, self.params = sql, params
        self.names = self.source.reads(sql, params).columns
        self.selection = selection_of(sql, self.tables, "sqlite", self.names)
        self.mask = self.source.reads(self.selection.whole, params).tables
        self.touched, self.renames, self.after = DirtyKeys(100), KeyRenames(100), self.source.position()
        self.outbox, self.state, self.told = Outbox(), State(), tuple[RowChange, ...]()
        self.window = Answers(self.outbox)
        self.window.subscribe(1, "t", self.ordered, keys_of(self.selection))
        self.tx = 0
        self.take(None)

    @property
    def ordered(self) -> bool:
        return bool(self.selection.order)

    def write(self, writes: Sequence[tuple[str, Row]]) -> None:
        with self.source.transaction() as tx:
            for statement, values in writes:
                tx.execute(statement, values)

    def hear(self) -> None:
        for item in self.source.changes(self.after, 0):
            assert isinstance(item, Transaction)
            self.after = item.position
            for change in coalesce(item, self.tables).changes:
                table = self.tables[change.table]
                if not touches(self.mask, change.table, table.names, change.old, change.new):
                    continue
                if change.table in self.selection.keys:
                    self.renames.note(item.position, table, change)
                try:
                    self.touched.note(item.position, list(self.selection.wanted(table, change)))
                except Unmapped:
                    self.touched.note_whole(item.position)

    def ask(self) -> Wanted | None:
        """What was asked for; None for all."""
        wanted = None if self.touched.needs_whole else self.touched.upto(self.after)
        if wanted is None or wanted:
            self.take(wanted)
        self.touched.answered(self.after)
        self.renames.answered(self.after)
        return wanted

    def take(self, wanted: Wanted | None) -> None:
        """Asks the origin and applies what is told of the answer."""
        sql = self.selection.whole if wanted is None else self.selection.part(wanted)
        parts = None if wanted is None else [(self.selection.asks[ask], values) for ask, values in wanted.items()]
        self.tx += 1
        renamed = self.selection.placed(self.renames.upto(self.after))
        self.window.answer(1, self.source.query(sql, self.params).rows, self.tx, self.tx, parts, renamed)
        emitted = decode(encode(self.outbox.take()))
        self.told = ()
        for emission in read_emissions(emitted.index, emitted.edits.get("t"), self.names, lambda tx: tx):
            self.state = applied(self.state, emission, self.ordered)
            self.told = emission.changes if isinstance(emission, Diff) else ()

    def restart(self) -> None:
        """The window as it is read from what it saved."""
        with tempfile.TemporaryDirectory() as state:
            self.window, files = Answers(self.outbox), self.window.save(Path(state))
            self.window.load(Path(state), files)

    def check(self) -> None:
        """The user's query is answered alike; where it is ordered, the effective one says how ties fall."""
        shown = [packed(tuple(row.values())) for row in self.state.rows]
        asked, effective = (
            [packed(row) for row in self.source.query(sql, self.params).rows]
            for sql in (self.sql, self.selection.effective)
        )
        assert sorted(shown) == sorted(asked) == sorted(effective)
        assert shown == effective or not self.ordered
        assert len(set(self.state.hashes)) == len(shown)


def labels_of(select: str) -> list[str]:
    return ["p", "q"] if " a p " in select else [t for t in "abcd" if f" {t} " in f"{select},".replace(",", " ")]


def asked() -> Iterator[str]:
    """Each with each condition on each of its tables, and each order."""
    for select, condition, order in itertools.product(SELECTS, CONDITIONS, ORDERS):
        labels = labels_of(select)
        joint = " AND " if " WHERE " in select else " WHERE "
        by = f" ORDER BY {order.format(labels[0], labels[-1])}" if order else ""
        for label in labels if condition else [""]:
            if not (label == "d" and ".t" in condition):
                yield (f"{select}{joint}({condition.format(label)})" if label else select) + by


@tries(120)
@given(st.sampled_from(sorted(asked())), TRANSACTIONS, st.integers(1, 3), st.integers(0, 8))
def test_rows_kept_by_their_keys_are_those_of_the_query(
    sql: str, transactions: list[list[tuple[str, Row]]], every: int, restarted: int
) -> None:
    """Asked after every one, or after some of them together."""
    world = World(sql, (1,) * sql.count("?"))
    for number, writes in enumerate(transactions, 1):
        if number == restarted:
            world.restart()
        world.write(writes)
        world.hear()
        if number % every == 0:
            world.ask()
            world.check()


ROWS = [
    ("INSERT INTO a VALUES (1, 7, 'one'), (2, 7, 'two'), (3, 8, 'three')", ()),
    ("INSERT INTO c VALUES (1, 'm', 7, 'one'), (1, 'n', 7, 'two')", ()),
]
THIRD = "UPDATE a SET t = 'third' WHERE id = 3"
EIGHTH = "INSERT INTO c VALUES (3, 'z', 8, 'zed')"
# A query, transactions that are asked for together, and what is told: the results before and after
MOVED: tuple[tuple[str, list[str], list[tuple[str | None, str | None]]], ...] = (
    ("SELECT a.t, date(a.x) AS d FROM a", ["UPDATE a SET id = 9 WHERE id = 1", THIRD],
     [("one", "one"), ("three", "third")]),
    ("SELECT a.t, date(a.x) AS d FROM a ORDER BY 1", ["UPDATE a SET id = 9 WHERE id = 1", THIRD],
     [("one", "one"), ("three", "third")]),
    ("SELECT a.t FROM a ORDER BY a.id", ["UPDATE a SET id = 9, t = 'o' WHERE id = 1"], [("one", "o")]),
    ("SELECT a.t FROM a", ["UPDATE a SET id = 9 WHERE id = 1", "UPDATE a SET id = 8 WHERE id = 9", THIRD],
     [("one", "one"), ("three", "third")]),
    ("SELECT a.t FROM a", ["DELETE FROM a WHERE id = 1", "UPDATE a SET id = 1 WHERE id = 2"],
     [("one", None), ("two", "two")]),
    ("SELECT a.t FROM a", ["UPDATE a SET id = 1 - id WHERE id = 1", "DELETE FROM a WHERE id = 0",
                           "INSERT INTO a VALUES (0, 0, 'new')"], [("one", None), (None, "new")]),
    ("SELECT a.t FROM a WHERE a.id < 5", ["UPDATE a SET id = 9 WHERE id = 1"], [("one", None)]),
    ("SELECT c.l FROM a LEFT JOIN c ON c.x = a.x WHERE a.id <> 2", ["UPDATE a SET id = 9 WHERE id = 1", EIGHTH],
     [("m", "m"), ("n", "n"), (None, "z")]),
    ("SELECT c.t FROM a LEFT JOIN c ON c.x = a.x WHERE a.id <> 2", ["UPDATE c SET l = 'a' WHERE l = 'n'", EIGHTH],
     [("two", "two"), (None, "zed")]),
    ("SELECT q.t FROM a p LEFT JOIN a q ON q.x = p.x WHERE p.x = 8", ["UPDATE a SET id = 9 WHERE id = 3"],
     []),
    ("SELECT a.t FROM a LEFT JOIN c ON c.x = a.x WHERE a.id > 2",
     ["INSERT INTO c VALUES (5, 'm', 8, '')", "UPDATE a SET id = 9, t = 'third' WHERE id = 3"], [("three", "third")]),
    ("SELECT a.t FROM a WHERE a.x IN (SELECT k + 6 FROM c)",
     ["UPDATE a SET id = 9 WHERE id = 1", "UPDATE c SET k = 2 WHERE l = 'm'"],
     [("one", "one"), (None, "three")]),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "transactions", "expected"), MOVED)
def test_a_row_that_is_given_another_key_is_one_update(
    sql: str, transactions: list[str], expected: list[tuple[str | None, str | None]]
) -> None:
    """From its old hash to a new one, also where all of the query is asked."""
    world = World(sql)
    for writes in (ROWS, *([(one, ())] for one in transactions)):
        world.write(writes)
        world.hear()
        if writes is ROWS:
            world.ask()
            before = set(world.state.hashes)
    world.ask()
    world.check()
    told = [tuple(row and next(iter(row.values())) for row in (one.old, one.new)) for one in world.told]
    assert sorted(told, key=repr) == sorted(expected, key=repr)
    assert before - set(world.state.hashes) <= {one.old_hash for one in world.told}


UNSEEN = (  # a query, and writes that leave it as it looks
    ("SELECT a.t FROM a", "UPDATE a SET id = 9 WHERE id = 1"),
    ("SELECT a.t, date(a.x) AS d FROM a ORDER BY 1", "UPDATE a SET id = 9 WHERE id = 1"),
    ("SELECT a.t FROM a", "UPDATE a SET id = 7 - id; UPDATE a SET id = id - 3"),
    ("SELECT a.x FROM a ORDER BY a.id", "UPDATE a SET id = id - 2 WHERE id = 2"),
    ("SELECT a.x FROM a", "DELETE FROM a WHERE id = 1; INSERT INTO a VALUES (5, 7, 'five')"),
    ("SELECT a.t FROM a", "UPDATE a SET t = 'no' WHERE id = 2; UPDATE a SET t = 'two' WHERE id = 1; "
                          "UPDATE a SET t = 'one' WHERE id = 2"),
    ("SELECT a.x FROM a WHERE a.x = 7 ORDER BY a.t", "UPDATE a SET t = 'x' WHERE id = 1"),
    ("SELECT c.l FROM a LEFT JOIN c ON c.x = a.x WHERE a.id <> 2", "UPDATE a SET id = 9 WHERE id = 1"),
    ("SELECT a.t FROM a LEFT JOIN c ON c.x = a.x WHERE a.id > 2", EIGHTH),
)  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("sql", "statements"), UNSEEN)
def test_what_leaves_the_result_as_it_looks_is_not_told(sql: str, statements: str, restarted: bool) -> None:
    """And rows are known by the same hashes, until they change."""
    world = World(sql)
    world.write(ROWS)
    world.hear()
    world.ask()
    before = list(world.state.hashes)
    world.write([(one, ()) for one in statements.split("; ")])
    world.hear()
    world.ask()
    world.check()
    assert not world.told and list(world.state.hashes) == before
    if restarted:
        world.restart()
    world.write([("UPDATE a SET x = x + 1, t = t || '!'", ()), ("INSERT INTO a SELECT id + 20, x, t FROM a", ())])
    world.hear()
    world.ask()
    world.check()
    assert world.told


UNLIKE = (
    "CREATE TABLE loose (x, t TEXT)",
    "CREATE VIEW seen AS SELECT x, t FROM a",
    "CREATE TABLE names (name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE)",
)
EXPLAINED = (
    "SELECT a.id, date(a.t) AS day FROM a WHERE a.x = ?",
    "SELECT p.id, c.k, date(c.t) AS day FROM a p LEFT JOIN c ON c.x = p.x JOIN d ON d.id = p.x",
    "SELECT a.id, date(b.t) AS day FROM a FULL JOIN b USING (x)",
    "SELECT a.id, date(a.t) AS day FROM a LEFT JOIN b ON b.x > a.x WHERE a.x IN (SELECT x FROM d)",
    "SELECT a.id, date(a.t) AS day FROM a ORDER BY day",
    "SELECT c.l, date(d.x) AS day FROM c LEFT JOIN d ON d.id = c.k ORDER BY c.t COLLATE NOCASE DESC, 2",
    "SELECT n.name, date(a.t) AS day FROM a JOIN names n ON n.name = a.t ORDER BY day, name",
    "SELECT lower(n.name) AS low, date(a.t) AS day FROM a JOIN names n ON n.name = a.t ORDER BY low",
    "SELECT a.id, date(a.t) AS day FROM a LEFT JOIN d USING (id) ORDER BY id",
    "SELECT a.id, date(a.t) AS day FROM a ORDER BY (2), -a.x",
    "SELECT a.id, date(a.t) AS day FROM a ORDER BY +2",
    "SELECT a.id, date(a.t) AS day FROM a ORDER BY day LIMIT 3",
    "SELECT a.id, date(max(a.t)) AS day FROM a",
    "SELECT date(t) AS day, x FROM loose",
    "SELECT a.id, date(e.value) AS day FROM a, json_each('[1]') e",
    "SELECT x, date(t) AS day FROM seen",
    "SELECT a.id FROM a FULL JOIN b ON b.x = a.x FULL JOIN d ON date(d.x) = a.t",
)


def test_explain_says_what_is_asked_for_or_why_all_of_it() -> None:
    """HEADWATER_GOLDEN=1 writes it anew."""
    source = MemorySource()
    for statement in (*SCHEMA, *UNLIKE):
        source.execute(statement)
    tables = {table.name: table for table in source.tables()}
    told = [f"{sql}\n\n{explain_with(source, tables, sql, (1,) if '?' in sql else ())}" for sql in EXPLAINED]
    if os.environ.get("HEADWATER_GOLDEN"):
        GOLDEN.write_text("\n\n".join(told) + "\n")
    assert "\n\n".join(told) + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.id FROM a WHERE date(t) > 'x' GROUP BY a.id",
        "SELECT DISTINCT date(t) FROM a",
        "SELECT date(t) FROM a LIMIT 3",
        "SELECT date(t) FROM a UNION ALL SELECT 1",
        "WITH w AS (SELECT 1) SELECT * FROM w",
        "SELECT date(t) FROM (SELECT t FROM a)",
        "SELECT date(t) FROM a WHERE x = ?2",
        "SELECT date(t) FROM a INDEXED BY i",
        "SELECT date('x')",
        "SELECT date(t) AS one FROM a ORDER BY 2",
        "SELECT date(t) AS one FROM a ORDER BY likely(one)",
        "SELECT date(t) AS one FROM a ORDER BY -1",
        "SELECT date(t) AS one FROM a ORDER BY one COLLATE RTRIM",
        "SELECT date(t) AS one FROM a ORDER BY upper(one COLLATE NOCASE)",
        "SELECT date(t) AS one FROM a ORDER /* by */ BY one",
    ],
)
def test_what_has_no_outline_has_no_selection(sql: str) -> None:
    tables = World("SELECT id FROM a").tables
    with pytest.raises(NoOutline):
        selection_of(sql, tables, "sqlite", ("one",))


def test_a_selection_fits_the_table_as_long_as_it_has_its_keys_and_what_is_compared() -> None:
    world = World("SELECT a.id FROM a LEFT JOIN c ON c.x = a.x")
    table = world.tables["c"]
    assert world.selection.fits(table) and world.selection.fits(Table("other", ()))
    assert not world.selection.fits(replace(table, key=("k",)))
    assert not world.selection.fits(replace(table, columns=tuple(one for one in table.columns if one.name != "x")))
