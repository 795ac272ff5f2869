"""Windows over their lives: subscribe, snapshot, error and recovery, limits, partitions, new schemas, the end."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.index import Entry
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.emissions.reader import read_emissions
from headwater.engine.rows.conform import conform
from headwater.engine.windows.partition import partition_of
from headwater.model.change import Change, Transaction
from headwater.model.emission import Diff, Result, State, apply
from headwater.model.errors import Corrupt
from headwater.model.limits import Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type, pack_any
from headwater.plan.planner import Planned, plan
from tests.engine.test_dataflow import check, oracle_of, start
from tests.engine.world import FUZZ, KEYS, Origin, Subscriber, batch_of, deliver, delta_of, random_plan, table_of

T = Table(
    "t",
    (Column("id", Type.INTEGER, "INTEGER"), Column("g", Type.INTEGER, "INTEGER"), Column("v", Type.INTEGER, "INTEGER")),
    ("id",),
)
ROWS: list[Row] = [(1, 0, 10), (2, 0, 20), (3, 1, 30)]
LEAST = -(2**63)


class Bench:
    """A dataflow over `T`, one transaction a step."""

    def __init__(self, *sqls: str, rows: list[Row] = ROWS, limits: Limits | None = None) -> None:
        self.flow = Dataflow(limits=limits or Limits())
        self.flow.define(T)
        self.plans = [plan(sql, [T]) for sql in sqls]
        self.tx = 1
        for planned in self.plans:
            self.open(planned, rows)

    def open(self, planned: Planned, rows: list[Row]) -> None:
        needed = self.flow.needs_rows(planned.template)
        self.flow.activate(planned.template, {"t": [batch_of(T, rows)]} if needed else None)
        assert self.flow.subscribe(planned.instance, self.tx)

    def change(self, *changes: tuple[Row | None, Row | None]) -> None:
        self.tx += 1
        one = Transaction(0, tuple(Change("t", old, new) for old, new in changes))
        self.flow.step({"t": [delta_of(T, [(self.tx, one)])]})

    def take(self) -> list[tuple[Entry, Result | Diff | None]]:
        """What was emitted, for the first query."""
        emitted = self.flow.take()
        planned = self.plans[0]
        mine = [entry for entry in emitted.index if entry.instance == planned.instance.id]
        names = [output.name for output in planned.template.outputs]
        edits = emitted.edits.get(planned.template.id)
        return [(entry, next(iter(read_emissions([entry], edits, names, lambda tx: tx)), None)) for entry in mine]

    def kinds(self) -> list[tuple[str, int, int]]:
        return [(entry.kind, entry.tx, entry.prev) for entry, _ in self.take()]


def values(emission: Result | Diff | None) -> list[tuple[object, ...]]:
    assert isinstance(emission, Result)
    return [tuple(row.values()) for row in emission.rows]


def test_the_first_emission_is_a_result_and_the_chain_goes_on_from_it() -> None:
    bench = Bench("SELECT id, v FROM t WHERE g = 0")
    [(entry, result)] = bench.take()
    assert (entry.kind, entry.tx, entry.prev) == ("result", 1, 0)
    assert sorted(values(result)) == [(1, 10), (2, 20)]
    bench.change(((1, 0, 10), (1, 0, 11)))
    bench.change(((3, 1, 30), (3, 1, 31)))
    bench.change(((1, 0, 11), None))
    assert bench.kinds() == [("diff", 2, 1), ("diff", 4, 2)]


def test_a_snapshot_repeats_the_result_and_does_not_advance_the_chain() -> None:
    bench = Bench("SELECT id, v FROM t ORDER BY v")
    bench.change(((1, 0, 10), (1, 0, 25)))
    bench.flow.take()
    for _ in range(2):
        bench.flow.snapshot(bench.plans[0].instance.id)
    [(entry, result)] = bench.take()
    assert (entry.kind, entry.tx, entry.prev) == ("result", 2, 1)
    assert values(result) == [(2, 20), (1, 25), (3, 30)]
    bench.change(((1, 0, 25), None))
    assert bench.kinds() == [("diff", 3, 2)]


def test_a_diff_and_a_snapshot_of_one_transaction_are_told_apart() -> None:
    bench = Bench("SELECT id, v FROM t ORDER BY v LIMIT 2")
    bench.flow.take()
    bench.change((None, (4, 0, 5)))
    assert bench.flow.subscribe(bench.plans[0].instance, 99), "a second subscribe is a snapshot"
    (_, diff), (_, result) = bench.take()
    assert isinstance(diff, Diff)
    assert [change.type for change in diff.changes] == ["insert", "delete"]
    assert values(result) == [(4, 5), (1, 10)]


def test_an_update_that_nobody_sees_is_no_emission() -> None:
    bench = Bench("SELECT id FROM t WHERE v > 0", "SELECT id FROM t ORDER BY v", "SELECT v FROM t WHERE g = 1 LIMIT 1")
    bench.flow.take()
    bench.change(((1, 0, 10), (1, 5, 11)))
    assert not bench.flow.take().index


def test_a_row_that_moves_is_mentioned_though_no_value_changed() -> None:
    bench = Bench("SELECT id FROM t ORDER BY v")
    bench.flow.take()
    bench.change(((1, 0, 10), (1, 0, 99)))
    [(_, diff)] = bench.take()
    assert isinstance(diff, Diff)
    assert [(c.type, c.old_index, c.index) for c in diff.changes] == [("update", 0, 2)]


def test_a_changed_key_is_one_update_from_old_hash_to_new() -> None:
    bench = Bench("SELECT id, v FROM t WHERE g = 0")
    bench.flow.take()
    bench.change(((1, 0, 10), (7, 0, 10)))
    [(_, diff)] = bench.take()
    assert isinstance(diff, Diff)
    [change] = diff.changes
    assert change.type == "update"
    assert change.old_hash != change.new_hash


def test_one_frame_runs_short_and_is_filled_with_no_query() -> None:
    bench = Bench("SELECT id FROM t ORDER BY v DESC LIMIT 2")
    bench.flow.take()
    bench.change(((3, 1, 30), None))
    [(_, diff)] = bench.take()
    assert isinstance(diff, Diff)
    assert sorted((c.type, c.old_index, c.index) for c in diff.changes) == [("delete", 0, None), ("insert", None, 1)]


@pytest.mark.parametrize("tail", ["", " ORDER BY v", " ORDER BY v LIMIT 10"])
def test_a_row_that_fails_puts_the_window_into_error_until_it_leaves(tail: str) -> None:
    bench = Bench(f"SELECT id, abs(v) AS v FROM t WHERE g = 0{tail}")
    bench.flow.take()
    bench.change((None, (9, 0, LEAST)))
    bench.change(((1, 0, 10), (1, 0, 11)))
    bench.change((None, (8, 1, LEAST)))
    bench.change(((9, 0, LEAST), (9, 1, LEAST)), ((2, 0, 20), (2, 0, 21)))
    bench.change(((1, 0, 11), (1, 0, 12)))
    taken = bench.take()
    assert [(e.kind, e.tx, e.prev) for e, _ in taken] == [("error", 2, 1), ("result", 5, 2), ("diff", 6, 5)]
    assert "overflow" in taken[0][0].reason
    assert sorted(values(taken[1][1])) == [(1, 11), (2, 21)]


def test_error_and_recovery_do_not_depend_on_the_cut() -> None:
    def run(cut: int) -> bytes:
        bench = Bench("SELECT id, abs(v) AS v FROM t WHERE g = 0", "SELECT abs(v) AS v FROM t ORDER BY v LIMIT 2")
        rng = random.Random(4)
        rows = {row[0]: row for row in ROWS}
        txs = []
        for tx in range(2, 42):
            id = rng.randrange(1, 5)
            new: Row | None = (id, rng.randrange(2), rng.choice((1, 2, 3, LEAST))) if rng.random() < 0.8 else None
            old = rows.pop(id, None)
            if new is not None:
                rows[id] = new
            if old != new:
                txs.append((tx, Transaction(0, (Change("t", old, new),))))
        for at in range(0, len(txs), cut):
            bench.flow.step({"t": [delta_of(T, txs[at : at + cut])]})
        return encode(bench.flow.take())

    assert run(1) == run(7) == run(40)
    assert {entry.kind for entry in decode(run(1)).index} == {"result", "diff", "error"}


def test_subscribing_to_an_error_tells_it() -> None:
    bench = Bench("SELECT abs(v) AS v FROM t", rows=[(1, 0, LEAST)])
    assert [(entry.kind, entry.tx) for entry, _ in bench.take()] == [("error", 1)]
    bench.change(((1, 0, LEAST), (1, 0, 1)))
    [(entry, result)] = bench.take()
    assert (entry.kind, entry.prev, values(result)) == ("result", 1, [(1,)])


def test_an_overflow_inside_where_is_as_in_sqlite() -> None:
    bench = Bench("SELECT id FROM t WHERE v + 1 > 0", rows=[(1, 0, 2**63 - 1)])
    [(_, result)] = bench.take()
    assert values(result) == [(1,)]


@pytest.mark.parametrize("tail", ["", " ORDER BY v"])
def test_a_result_that_outgrows_its_limit_is_closed(tail: str) -> None:
    bench = Bench(
        f"SELECT id FROM t{tail}", f"SELECT id FROM t{tail or ' ORDER BY v'} LIMIT 2", limits=Limits(result_rows_max=4)
    )
    bench.flow.take()
    bench.change((None, (4, 0, 1)))
    bench.change((None, (5, 0, 1)))
    bench.change((None, (6, 0, 1)))
    taken = bench.take()
    assert [(entry.kind, entry.tx) for entry, _ in taken] == [("diff", 2), ("closed", 3)]
    assert "4 rows" in taken[1][0].reason
    bench.open(bench.plans[0], ROWS)
    assert [entry.kind for entry, _ in bench.take()] == ["closed"]


def test_a_window_that_orders_too_many_rows_is_closed() -> None:
    bench = Bench("SELECT id FROM t ORDER BY v LIMIT 2", "SELECT id FROM t", limits=Limits(ranked_rows_max=4))
    bench.flow.take()
    bench.change((None, (4, 0, 1)))
    bench.change((None, (5, 0, 1000)))  # past the frame: nobody would see it
    bench.change((None, (6, 0, 1)))
    told = {planned.instance.id: list[Entry]() for planned in bench.plans}
    for entry in bench.flow.take().index:
        told[entry.instance].append(entry)
    ordered, unordered = told.values()
    assert [(entry.kind, entry.tx) for entry in ordered] == [("diff", 2), ("closed", 3)]
    assert "4 rows would have to be kept in order" in ordered[1].reason
    assert [entry.kind for entry in unordered] == ["diff"] * 3


@pytest.mark.parametrize("room", [50, 150])
def test_when_it_is_closed_does_not_depend_on_the_cut(room: int) -> None:
    def run(cut: int) -> bytes:
        bench = Bench("SELECT id FROM t ORDER BY v LIMIT 2", limits=Limits(ranked_rows_max=room))
        txs = [(tx, Transaction(0, (Change("t", None, (tx + 10, 0, 1000 - tx * 10)),))) for tx in range(2, 102)]
        for at in range(0, len(txs), cut):
            bench.flow.step({"t": [delta_of(T, txs[at : at + cut])]})
        return encode(bench.flow.take())

    assert run(1) == run(7) == run(100)
    assert ("closed" in {entry.kind for entry in decode(run(1)).index}) == (room == 50)


def test_unsubscribed_windows_emit_nothing_and_leave_nothing() -> None:
    bench = Bench("SELECT id FROM t WHERE g = 0", "SELECT id FROM t WHERE g = 1")
    bench.flow.take()
    bench.flow.unsubscribe(bench.plans[0].instance.id, 1)
    bench.flow.unsubscribe(12345, 1)
    bench.change(((1, 0, 10), None), ((3, 1, 30), None))
    assert [entry.instance for entry in bench.flow.take().index] == [bench.plans[1].instance.id]


def test_null_matches_nothing() -> None:
    bench = Bench("SELECT id FROM t WHERE g = 0")
    bench.flow.take()
    bench.change((None, (4, None, 1)))
    bench.change(((1, 0, 10), (1, None, 10)))
    [(_, diff)] = bench.take()
    assert isinstance(diff, Diff)
    assert [change.type for change in diff.changes] == ["delete"]
    nothing = replace(bench.plans[0].instance, id=5, values=(None,))
    assert bench.flow.subscribe(nothing, 9)
    assert bench.flow.take().edits == {}


def test_a_dropped_table_ends_its_windows_with_the_reason() -> None:
    bench = Bench("SELECT id FROM t")
    bench.flow.take()
    assert bench.flow.drop("t", 7, "the table was dropped") == [bench.plans[0].instance.id]
    [(entry, _)] = bench.take()
    assert (entry.kind, entry.tx, entry.prev, entry.reason) == ("closed", 7, 1, "the table was dropped")
    assert not bench.flow.knows(bench.plans[0].template.id)
    bench.flow.step({"t": [delta_of(T, [(8, Transaction(0, (Change("t", None, (4, 0, 1)),)))])]})
    assert not bench.flow.take().index


@pytest.mark.parametrize("key", KEYS)
def test_activation_folds_in_the_changes_made_since(key: tuple[str, ...]) -> None:
    rng = random.Random(1)
    table = table_of(key)
    origin = Origin(table, rng)
    origin.transaction(30)
    batches = [origin.batch()]
    for _ in range(20):
        delta = delta_of(table, [(1, origin.transaction())]).batch
        batches.append(delta.remove_column(delta.num_columns - 2))
    flow = Dataflow()
    flow.define(table)
    subscribers = [Subscriber(plan(sql, [table])) for sql in ("SELECT * FROM t", "SELECT id FROM t WHERE b = 'x'")]
    for subscriber, needs in zip(subscribers, (True, False), strict=True):
        assert flow.needs_rows(subscriber.planned.template) == needs, "the second key is built from what is here"
        flow.activate(subscriber.planned.template, {"t": batches} if needs else None)
        flow.subscribe(subscriber.planned.instance, 1)
    with oracle_of(table) as oracle:
        for tx in range(2, 20):
            deliver(flow.take(), subscribers)
            check(oracle, origin, subscribers)
            flow.step({"t": [delta_of(table, [(tx, origin.transaction())])]})


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(3 * FUZZ))
def test_partitions_share_the_work_and_together_emit_all_of_it(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(seed)
    table = table_of(key)
    origin = Origin(table, rng)
    origin.transaction(20)
    plans = [random_plan(table, rng) for _ in range(12)]
    first = Origin(table, rng, dict(origin.rows))
    txs = [origin.transaction() for _ in range(20)]

    def run(partition: tuple[int, int]) -> EmissionBatch:
        flow = Dataflow(partition=partition)
        flow.define(table)
        for planned in plans:
            mine = partition_of(planned.template, planned.instance, partition[1]) == partition[0]
            assert start(flow, first, planned, 1) == mine
        flow.step({"t": [delta_of(table, list(enumerate(txs, 2)))]})
        return flow.take()

    whole, parts = run((0, 1)), [run((q, 3)) for q in range(3)]
    assert sorted(entry for part in parts for entry in part.index) == sorted(whole.index)
    edits = [row for part in parts for batch in part.edits.values() for row in batch.to_pylist()]
    assert sorted(map(repr, edits)) == sorted(repr(r) for batch in whole.edits.values() for r in batch.to_pylist())


def turned(table: Table, name: str) -> Table:
    columns = tuple(replace(c, type=Type.ANY) if c.name == name else c for c in table.columns)
    return replace(table, columns=columns, schema_id=table.schema_id + 1)


def widened(table: Table) -> Table:
    added = Column(f"n{len(table.columns)}", Type.TEXT, "TEXT", filler=pack_any("new"))
    return replace(table, columns=(*table.columns, added), schema_id=table.schema_id + 1)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(4 * FUZZ))
def test_a_new_schema_in_the_middle_changes_no_result(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"schema {key}{seed}")
    table = table_of(key)
    origin, flow = Origin(table, rng), Dataflow(limits=Limits(run_rows_min=8))
    flow.define(table)
    origin.transaction(20)
    subscribers = [Subscriber(random_plan(table, rng)) for _ in range(6)]
    for subscriber in subscribers:
        start(flow, origin, subscriber.planned, 1)
    with oracle_of(table) as oracle:
        for tx in range(2, 40):
            if tx % 10 == 0:
                table = rng.choice((turned(table, rng.choice(("a", "c", "f"))), widened(table)))
                grow(origin, table)
                flow.define(table)
                oracle.define(table)
            flow.step({"t": [delta_of(table, [(tx, origin.transaction())])]})
            deliver(flow.take(), subscribers)
            check(oracle, origin, subscribers)


def grow(origin: Origin, table: Table) -> None:
    added = table.columns[len(origin.table.columns) :]
    origin.table = table
    origin.rows = {n: (*row, *(column.default for column in added)) for n, row in origin.rows.items()}


def test_edits_of_two_schemas_in_one_take_are_packed() -> None:
    bench = Bench("SELECT id, v FROM t")
    bench.flow.define(turned(T, "v"))
    bench.flow.step({"t": [delta_of(turned(T, "v"), [(2, Transaction(0, (Change("t", None, (4, 0, "x")),)))])]})
    state = State()
    for _, emission in bench.take():
        assert emission is not None
        state = apply(state, emission)
    assert sorted((row["id"], row["v"]) for row in state.rows) == [(1, 10), (2, 20), (3, 30), (4, "x")]


def test_rows_of_an_older_schema_are_made_to_fit() -> None:
    old = batch_of(T, ROWS)
    fitted = conform(old, widened(turned(T, "v")))
    assert fitted.schema.equals(widened(turned(T, "v")).arrow, check_metadata=True)
    assert conform(old, T) is old


def test_saved_runs_are_written_once_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    bench = Bench("SELECT id FROM t")
    saved = bench.flow.save(tmp_path)
    [file, identity, windows] = saved.files
    written = [(tmp_path / name).stat().st_mtime_ns for name in (file, identity, windows)]
    assert bench.flow.save(tmp_path).files == [file, identity, windows]
    assert [(tmp_path / name).stat().st_mtime_ns for name in (file, identity, windows)] == written
    data = bytearray((tmp_path / file).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / file).write_bytes(data)
    with pytest.raises(Corrupt, match="damaged"):
        Dataflow.load(tmp_path, saved.document)
    (tmp_path / file).unlink()
    with pytest.raises(Corrupt, match="cannot be read"):
        Dataflow.load(tmp_path, saved.document)


def test_activation_without_the_rows_it_needs_is_refused() -> None:
    flow = Dataflow()
    flow.define(T)
    with pytest.raises(ValueError, match="needs the rows of t"):
        flow.activate(plan("SELECT id FROM t", [T]).template, None)
