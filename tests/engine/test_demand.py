"""State follows demand: a relation holds what its subscribers ask for, and lets go of it when the last one leaves.

Each query stands for many, which differ in the values that they ask for. They come and go at random between random
transactions and restarts; SQLite says what each should see.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.dataflow import Dataflow
from headwater.model.change import Change, Transaction
from headwater.model.limits import Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, Value
from headwater.plan.demand import demands_of
from headwater.plan.planner import Planned, effective_sql, plan
from tests.engine.world import FUZZ, Subscriber, batch_of, deliver, delta_of, exact

_INTEGER, _TEXT = (Type.INTEGER, "INTEGER", "BINARY"), (Type.TEXT, "TEXT", "NOCASE")


def _table(name: str, **columns: tuple[Type, str, str]) -> Table:
    return Table(name, tuple(Column(column, *kind) for column, kind in columns.items()), ("id",))


A = _table("a", id=_INTEGER, g=_INTEGER, s=_TEXT, v=_INTEGER)
B = _table("b", id=_INTEGER, aid=_INTEGER, g=_INTEGER, s=_TEXT)
C = _table("c", id=_INTEGER, g=_INTEGER, w=_INTEGER)
TABLES = (A, B, C)
G, S = ("0", "1", "2", "3"), ("'x'", "'X'", "'y'", "''")
IN = ("0, 1", "1, 2", "3", "0, 2, 3")
QUERIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "SELECT a.id, b.id AS bid FROM a JOIN b ON b.aid = a.id WHERE a.g = {}": (G,),
    "SELECT a.id, b.id AS bid FROM a JOIN b ON b.g = a.g WHERE a.g = {}": (G,),
    "SELECT a.id, b.id AS bid, c.w FROM a JOIN b ON b.g = a.g JOIN c ON c.g = b.g WHERE c.g = {} AND a.s = {}": (G, S),
    "SELECT a.id, b.id AS bid, c.w FROM a, b, c WHERE a.g IN ({}) AND b.g IN ({}) AND c.w = {}": (IN, IN, G),
    "SELECT a.id, a.v, b.s FROM a LEFT JOIN b ON b.aid = a.id WHERE a.s = {}": (S,),
    "SELECT a.id, b.s FROM a LEFT JOIN b ON b.g = a.g WHERE a.g = {}": (G,),
    "SELECT a.id, b.s FROM a LEFT JOIN b ON b.g = a.g WHERE b.g = {}": (G,),
    "SELECT a.id, b.s FROM a LEFT JOIN b ON b.g = a.g AND b.s = a.s WHERE b.s = {}": (S,),
    "SELECT a.id, b.s FROM a RIGHT JOIN b ON b.g = a.g WHERE b.g = {} AND b.s = {}": (G, S),
    "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON b.g = a.g WHERE a.g = {}": (G,),
    "SELECT a.id, a.v FROM a WHERE a.g = {} AND EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.s = a.s)": (G,),
    "SELECT a.id FROM a WHERE a.g = {} AND NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g)": (G,),
    "SELECT a.id FROM a WHERE a.g = {} AND a.g NOT IN (SELECT b.g FROM b)": (G,),
    "SELECT a.id, a.g IN (SELECT c.g FROM c) AS m FROM a WHERE a.g IN ({})": (IN,),
    "SELECT a.g, count(*) AS n, max(b.id) AS m FROM a JOIN b ON b.aid = a.id GROUP BY a.g HAVING a.g = {}": (G,),
    "SELECT count(*) AS n FROM a JOIN b ON b.aid = a.id WHERE a.g = {}": (G,),
    "SELECT a.v, count(*) AS n FROM a JOIN b ON b.g = a.g WHERE a.g = {} GROUP BY a.v": (G,),
    "SELECT DISTINCT a.v, b.g FROM a JOIN b ON b.aid = a.id WHERE b.g = {}": (G,),
    "SELECT * FROM (SELECT a.g, a.id FROM a JOIN c ON c.g = a.g UNION SELECT b.g, b.id FROM b) AS z WHERE g = {}": (G,),
    "SELECT a.id, c.w FROM a JOIN c ON c.g = a.g WHERE a.g = {} ORDER BY c.w DESC, a.v LIMIT 3": (G,),
    "SELECT a.id, (SELECT max(b.id) FROM b WHERE b.aid = a.id) AS m FROM a WHERE a.g = {} AND a.s = {}": (G, S),
    "SELECT a.id, b.v FROM a JOIN (SELECT v, g FROM a ORDER BY v LIMIT 4) AS b ON b.g = a.g WHERE a.g = {}": (G,),
}
Rows = dict[str, dict[int, Row]]


def _row(table: Table, id: int, rng: random.Random) -> Row:
    def value(column: Column) -> Value:
        if column.name == "id":
            return id
        if rng.random() < 0.1:
            return None
        return rng.choice(("x", "X", "y", "")) if column.type is Type.TEXT else rng.randrange(4)

    return tuple(value(column) for column in table.columns)


def transaction(rows: Rows, rng: random.Random) -> Transaction:
    changes: dict[tuple[str, int], Change] = {}
    for _ in range(rng.randint(1, 6)):
        table, id = rng.choice(TABLES), rng.randrange(12)
        old = rows[table.name].get(id)
        new = None if old is not None and rng.random() < 0.4 else _row(table, id, rng)
        if old == new or (table.name, id) in changes:
            continue
        changes[table.name, id] = Change(table.name, old, new)
        if new is None:
            del rows[table.name][id]
        else:
            rows[table.name][id] = new
    return Transaction(0, tuple(changes.values()))


def whole(rows: Rows) -> dict[str, list[pa.RecordBatch]]:
    return {table.name: [batch_of(table, list(rows[table.name].values()))] for table in TABLES}


def plans_of(sql: str) -> Iterator[Planned]:
    values: list[tuple[str, ...]] = [()]
    for domain in QUERIES[sql]:
        values = [(*some, one) for some in values for one in domain]
    for number, some in enumerate(values, 1):
        planned = plan(sql.format(*some), list(TABLES))
        yield replace(planned, instance=replace(planned.instance, id=number))


def answer(memory: sqlite3.Connection, rows: Rows, planned: Planned) -> list[Row]:
    for table in TABLES:
        memory.execute(f"DELETE FROM {table.name}")
        marks = ", ".join("?" * len(table.columns))
        memory.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows[table.name].values())
    return memory.execute(effective_sql(planned.template, planned.instance)).fetchall()


def oracle() -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    for table in TABLES:
        columns = ", ".join(f"{c.name} {c.declared} COLLATE {c.collation}" for c in table.columns)
        memory.execute(f"CREATE TABLE {table.name} ({columns})")
    return memory


def first_rows(rng: random.Random) -> Rows:
    return {table.name: {id: _row(table, id, rng) for id in range(0, 12, 2)} for table in TABLES}


def defined(limits: Limits) -> Dataflow:
    flow = Dataflow(limits=limits)
    for table in TABLES:
        flow.define(table)
    return flow


@pytest.mark.parametrize("seed", range(2 * FUZZ))
@pytest.mark.parametrize("sql", QUERIES)
def test_who_comes_and_goes_sees_what_the_source_says(sql: str, seed: int, tmp_path: Path) -> None:
    rng, limits = random.Random(f"{sql}{seed}"), Limits(run_rows_min=4)
    rows, flow = first_rows(rng), defined(limits)
    waiting, living = list(plans_of(sql)), list[Subscriber]()
    with closing(oracle()) as memory:
        for tx in range(1, 40):
            if waiting and rng.random() < 0.6:
                planned = waiting.pop(rng.randrange(len(waiting)))
                needed = flow.needs_rows(planned.template)
                flow.activate(planned.template, whole(rows) if needed else None)
                flow.subscribe(planned.instance, 3 * tx)
                living.append(Subscriber(planned))
            if living and rng.random() < 0.3:
                waiting.append(living.pop(rng.randrange(len(living))).planned)
                flow.unsubscribe(waiting[-1].instance.id, 3 * tx + 1)
            deliver(flow.take(), living)
            if rng.random() < 0.15:
                flow = Dataflow.load(tmp_path, flow.save(tmp_path).document, limits=limits)
            change = transaction(rows, rng)
            parts = {t.name: Transaction(0, tuple(c for c in change.changes if c.table == t.name)) for t in TABLES}
            flow.step({t.name: [delta_of(t, [(3 * tx + 2, parts[t.name])])] for t in TABLES if parts[t.name].changes})
            deliver(flow.take(), living)
            for one in living:
                ordered = one.planned.template.ordered
                assert exact(one.rows, ordered) == exact(answer(memory, rows, one.planned), ordered)


def test_most_of_these_queries_are_followed_by_demand() -> None:
    found = {sql: any(demands_of(next(plans_of(sql)).template.relation)) for sql in QUERIES}  # type: ignore[arg-type]
    assert [sql for sql, on_demand in found.items() if not on_demand] == [
        "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON b.g = a.g WHERE a.g = {}"
    ]


def test_state_beyond_the_tables_is_what_is_asked_for_and_goes_with_the_last(tmp_path: Path) -> None:
    """Ten thousand rows join ten thousand; two subscribers ask for ten each."""
    flow, count = defined(Limits()), 10_000
    sql = "SELECT a.id, b.id AS bid FROM a JOIN b ON b.aid = a.id WHERE a.g = {}"
    planned = [plan(sql.format(group), list(TABLES)) for group in (7, 8)]
    rows = {
        "a": [batch_of(A, [(n, n % 1000, "", n) for n in range(count)])],
        "b": [batch_of(B, [(n, n, 0, "") for n in range(count)])],
        "c": [batch_of(C, [])],
    }
    flow.activate(planned[0].template, rows)
    bare = _held(flow)
    assert bare <= 2 * count
    for tx, one in enumerate(planned, 1):
        flow.subscribe(one.instance, tx)
        assert _held(flow) - bare == 10 * tx, "the rows of the result"
        assert _referred(flow) == 10 * tx, "those of `a` are places in its store"
    for tx, one in enumerate(planned, 5):
        flow.unsubscribe(one.instance.id, tx)
    assert _held(flow) == bare and not _referred(flow)


@pytest.mark.parametrize("run_rows_min", (1, 16, 1024))
def test_rows_that_are_asked_for_are_places_that_come_and_go_with_rows_and_subscribers(run_rows_min: int) -> None:
    flow, count = defined(Limits(run_rows_min=run_rows_min)), 300
    sql = "SELECT a.id, b.id AS bid FROM a JOIN b ON b.aid = a.id WHERE a.g = {} AND a.v IN (1, 2)"
    planned = plan(sql.format(0), list(TABLES))
    rows = {n: (n, n % 10, "", n % 3) for n in range(count)}
    whole = {"a": [batch_of(A, list(rows.values()))], "b": [batch_of(B, [])], "c": [batch_of(C, [])]}
    flow.activate(planned.template, whole)
    rng, here = random.Random(run_rows_min), set[int]()
    for tx in range(1, 120):
        group, id = rng.randrange(10), rng.randrange(count)
        if group in here:
            flow.unsubscribe(group + 1, 2 * tx)
        else:
            flow.subscribe(replace(planned.instance, id=group + 1, values=(group, (1, 2))), 2 * tx)
        here ^= {group}
        new = (id, rng.randrange(10), "", rng.randrange(3))
        if new != rows[id]:
            change = Transaction(0, (Change("a", rows[id], new),))
            flow.step({"a": [delta_of(A, [(2 * tx + 1, change)])]})
            rows[id] = new
        assert _referred(flow) == sum(row[1] in here and row[3] in (1, 2) for row in rows.values())


def test_a_change_beside_a_demand_reads_what_is_asked_for_alone() -> None:
    """Ten thousand rows of `a` have the key that a row of `b` is joined by; ten of them are asked for."""
    flow, count = defined(Limits()), 10_000
    planned = plan("SELECT a.id, b.id AS bid FROM a JOIN b ON b.g = a.v WHERE a.g = 7", list(TABLES))
    rows = {
        "a": [batch_of(A, [(n, n % 1000, "", 1) for n in range(count)])],
        "b": [batch_of(B, [])],
        "c": [batch_of(C, [])],
    }
    flow.activate(planned.template, rows)
    flow.subscribe(planned.instance, 1)
    before = flow.counters.gathered
    flow.step({"b": [delta_of(B, [(2, Transaction(0, (Change("b", None, (1, 1, 1, "")),)))])]})
    assert sum(batch.num_rows for batch in flow.take().edits.values()) == 10
    assert flow.counters.gathered - before == 10


def test_a_first_result_reads_each_row_that_it_is_made_of_once() -> None:
    flow, count = defined(Limits()), 10_000
    planned = plan("SELECT a.id, b.id AS bid FROM a JOIN b ON b.aid = a.id WHERE a.g = 7", list(TABLES))
    rows = {
        "a": [batch_of(A, [(n, n % 1000, "", 1) for n in range(count)])],
        "b": [batch_of(B, [(n, n, 0, "") for n in range(count)])],
        "c": [batch_of(C, [])],
    }
    flow.activate(planned.template, rows)
    before = flow.counters.gathered
    flow.subscribe(planned.instance, 1)
    assert sum(batch.num_rows for batch in flow.take().edits.values()) == 10
    assert flow.counters.gathered - before == 2 * 10, "ten of `a` and ten of `b`"
    flow.subscribe(replace(planned.instance, id=2), 2)
    assert flow.counters.gathered - before == 3 * 10, "the second asks for what is here"


def test_who_asks_for_null_gets_nothing_of_the_rows_that_came_along() -> None:
    flow = defined(Limits())
    groups = "SELECT a.g, max(b.g) AS m FROM a JOIN b ON b.aid = a.id GROUP BY a.g"
    planned = plan(f"SELECT * FROM ({groups}) AS z WHERE g = 7 AND m = 1", list(TABLES))
    rows = {
        "a": [batch_of(A, [(1, 7, "", 1)])],
        "b": [batch_of(B, [(1, 1, None, "")])],
        "c": [batch_of(C, [])],
    }
    flow.activate(planned.template, rows)
    flow.subscribe(replace(planned.instance, values=(7, None)), 1)
    assert sum(batch.num_rows for batch in flow.take().edits.values()) == 0


def _referred(flow: Dataflow) -> int:
    """Rows that the sides of joins find by an index of those that are asked for."""
    stores = flow._state.stores.values()
    indexes = ((store, key, index) for store in stores for key, index in store.indexes.items())
    most = max((len(key.asked) for _, key, _ in indexes), default=0)
    return sum(
        len(index.places.living(store.heap.live))
        for store in stores
        for key, index in store.indexes.items()
        if key.asked and len(key.asked) == most
    )


def _held(flow: Dataflow) -> int:
    """Rows, in operators and arrangements."""
    state = flow._state
    bags = (bag for derived in state.derived.values() for bag in derived.bags())
    return sum(map(len, bags)) + sum(len(each.all().id) for each in state.arrangements.values())
