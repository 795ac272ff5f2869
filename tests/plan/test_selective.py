"""What is asked for after a change is enough: rows kept by their keys are the rows of the whole query, at every commit.

Without pipeline and log: the source tells changes, the selection says what to ask for, the origin answers, the window
takes the answer. Random tables of few values, so that keys meet, joins miss and match, and rows move between them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.keyed import Keyed, Keys, packed
from headwater.model.change import Transaction
from headwater.model.coalesce import coalesce
from headwater.model.schema import Table
from headwater.model.value import Row
from headwater.pipeline.asking import explain_with
from headwater.pipeline.touched import Touched, Wanted
from headwater.plan.selective import Unmapped, selection_of
from headwater.plan.wholistic import touches
from headwater.sources.memory import MemorySource
from headwater.sql.outline import NoOutline
from tests.support.fuzz import tries

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
    "SELECT a.id FROM a JOIN b ON b.x = a.x LEFT JOIN d ON d.x = a.x OR d.id = 1",
    "SELECT c.l, c.k + ? AS k FROM c JOIN d ON d.id = c.k",
)
CONDITIONS = (
    "",
    "date('200' || {0}.x || '-01-01') > '2001-01-01'",
    "{0}.x IS NULL OR {0}.x > 1",
    "{0}.t IS NULL",
    "{0}.t LIKE 'u%' OR {0}.x IN (SELECT x FROM d WHERE d.id > 1)",
)
VALUES = st.sampled_from([None, 0, 1, 2, 3])
TEXTS = st.sampled_from([None, "u", "v", "uv"])
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
        self.selection = selection_of(sql, self.tables, "sqlite")
        self.mask = self.source.reads(self.selection.whole, params).tables
        selection = self.selection
        self.window = Keyed(Keys(len(selection.columns), selection.identity, selection.anchored))
        self.window.take(self.source.query(selection.whole, params).rows, None)
        self.touched, self.after = Touched(100), self.source.position()

    def write(self, writes: list[tuple[str, Row]]) -> None:
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
                try:
                    self.touched.note(item.position, list(self.selection.wanted(table, change)))
                except Unmapped:
                    self.touched.note_whole(item.position)

    def ask(self) -> Wanted | None:
        """What was asked for; None for all."""
        wanted = None if self.touched.needs_whole else self.touched.upto(self.after)
        if wanted is None:
            self.window.take(self.source.query(self.selection.whole, self.params).rows, None)
        elif wanted:
            answer = self.source.query(self.selection.part(wanted), self.params)
            parts = [(self.selection.asks[ask], values) for ask, values in wanted.items()]
            self.window.take(answer.rows, parts)
        self.touched.answered(self.after)
        return wanted

    def check(self) -> None:
        expected = sorted(packed(row) for row in self.source.query(self.sql, self.params).rows)
        shown = list(self.window.shown())
        assert sorted(packed(row) for _, row in shown) == expected
        assert len({hash for hash, _ in shown}) == len(shown)


def asked() -> Iterator[str]:
    """Each with each condition on each of its tables."""
    for select, condition in itertools.product(SELECTS, CONDITIONS):
        labels = ["p", "q"] if " a p " in select else [t for t in "abcd" if f" {t} " in f"{select},".replace(",", " ")]
        joint = " AND " if " WHERE " in select else " WHERE "
        for label in labels if condition else [""]:
            if not (label == "d" and ".t" in condition):
                yield f"{select}{joint}({condition.format(label)})" if label else select


@tries(120)
@given(st.sampled_from(sorted(asked())), TRANSACTIONS, st.integers(1, 3))
def test_rows_kept_by_their_keys_are_those_of_the_query(
    sql: str, transactions: list[list[tuple[str, Row]]], every: int
) -> None:
    """Asked after every one, or after some of them together."""
    world = World(sql, (1,) if "?" in sql else ())
    for number, writes in enumerate(transactions, 1):
        world.write(writes)
        world.hear()
        if number % every == 0:
            world.ask()
            world.check()


EXPLAINED = (
    "SELECT a.id, date(a.t) AS day FROM a WHERE a.x = ?",
    "SELECT p.id, c.k, date(c.t) AS day FROM a p LEFT JOIN c ON c.x = p.x JOIN d ON d.id = p.x",
    "SELECT a.id, date(b.t) AS day FROM a FULL JOIN b USING (x)",
    "SELECT a.id, date(a.t) AS day FROM a LEFT JOIN b ON b.x > a.x WHERE a.x IN (SELECT x FROM d)",
    "SELECT a.id, date(a.t) AS day FROM a ORDER BY day",
    "SELECT a.id, date(max(a.t)) AS day FROM a",
    "SELECT date(t) AS day, x FROM loose",
    "SELECT a.id, date(e.value) AS day FROM a, json_each('[1]') e",
    "SELECT x, date(t) AS day FROM seen",
    "SELECT a.id FROM a FULL JOIN b ON b.x = a.x FULL JOIN d ON date(d.x) = a.t",
)


def test_explain_says_what_is_asked_for_or_why_all_of_it() -> None:
    """HEADWATER_GOLDEN=1 writes it anew."""
    source = MemorySource()
    for statement in (*SCHEMA, "CREATE TABLE loose (x, t TEXT)", "CREATE VIEW seen AS SELECT x, t FROM a"):
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
    ],
)
def test_what_has_no_outline_has_no_selection(sql: str) -> None:
    with pytest.raises(NoOutline):
        World(sql)


def test_a_selection_fits_the_table_as_long_as_it_has_its_keys_and_what_is_compared() -> None:
    world = World("SELECT a.id FROM a LEFT JOIN c ON c.x = a.x")
    table = world.tables["c"]
    assert world.selection.fits(table) and world.selection.fits(Table("other", ()))
    assert not world.selection.fits(replace(table, key=("k",)))
    assert not world.selection.fits(replace(table, columns=tuple(one for one in table.columns if one.name != "x")))
