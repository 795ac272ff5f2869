"""Both sides of every threshold in `headwater.model.size`: a switch that forces one of them, and what each decides.

`PAIRS` has, by the name of a threshold, a function that makes an input of some size from chance, and returns what is to
be done with it: the threshold decides how. `./dev bench sizes` measures the same pairs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Literal

import numpy as np
import pyarrow as pa

from headwater.engine.dataflow import Dataflow
from headwater.engine.dataflow_state import ActiveTemplate, DataflowState
from headwater.engine.emissions.block import Block, FewEdits
from headwater.engine.emissions.edits import edits_of
from headwater.engine.emissions.outbox import EmissionBatch, Outbox
from headwater.engine.operators.derived import Derived
from headwater.engine.ranges.range_index import RangeIndex
from headwater.engine.ranges.ranges import Wanted, wanted
from headwater.engine.rows.arrays import latest, picked, product, same
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.delta import Delta
from headwater.engine.rows.hashes import key_hash, row_hash
from headwater.engine.rows.work import Work
from headwater.engine.state.sort_hashes import rising, rising_by
from headwater.engine.state.table.arrangement import Arrangement
from headwater.engine.state.table.key_index import IndexKey
from headwater.engine.state.table.table_store import TableStore
from headwater.engine.windows.changes import Changes, changes_of
from headwater.engine.windows.instance_index import InstanceIndex, RowGroups, encode_instance
from headwater.engine.windows.ordered.replay import replay
from headwater.engine.windows.ordered.step_rows import StepRows
from headwater.engine.windows.row_identity import Multiset
from headwater.engine.windows.template_program import Program, Projection, differ
from headwater.engine.windows.unordered import linear
from headwater.model.change import Change, Transaction
from headwater.model.encoding.keys import encode_columns, hash_columns
from headwater.model.limits import DEFAULT
from headwater.model.schema import Column, Table
from headwater.model.size import SMALL, SmallSizes
from headwater.model.value import Row, Type, held_in
from headwater.pipeline.records.frame import decode_frame, encode_frames
from headwater.plan.planner import Planned, plan
from tests.engine.world import COLUMNS, batch_of, delta_of, value_for

Side = Literal["small", "large"]
SIDES: tuple[Side, ...] = ("small", "large")
Run = Callable[[], object]
Make = Callable[[random.Random, int], Run]

NAMES = tuple(field.name for field in fields(SmallSizes))
PAIRS: dict[str, Make] = {}
TABLE = Table("t", COLUMNS, ("id",))
BAG = Table("t", COLUMNS)
_LARGEST = {"small": sys.maxsize, "large": 0}  # an empty input is small


@contextmanager
def forced(side: Side | None, names: Sequence[str] = NAMES) -> Iterator[None]:
    """Every input goes to this side of these thresholds; None leaves them as they are."""
    before = {name: getattr(SMALL, name) for name in names}
    try:
        for name in names if side is not None else ():
            setattr(SMALL, name, _LARGEST[side or "small"])
        yield
    finally:
        for name, largest in before.items():
            setattr(SMALL, name, largest)


def pair(make: Make) -> Make:
    PAIRS[make.__name__] = make
    return make


def plain(found: object) -> object:
    """Comparable to the bit, whatever arrays hold it."""
    match found:
        case np.ndarray():
            return found.tolist()
        case pa.RecordBatch():
            bits = [column.view(pa.int64()) if column.type == pa.float64() else column for column in found.columns]
            return found.schema.to_string(), [held_in(column) for column in bits]
        case Changes():
            return plain([found.rows, found.id, found.old, found.new, found.tx])
        case Projection():
            return plain([found.place, found.pool, list(found.keys), found.failed])
        case RowGroups():
            return plain([found.number, found.rows])
        case Outbox():
            return plain(found.take())
        case EmissionBatch():
            return plain([list(found.index), list(found.edits.items())])
        case list() | tuple():
            return [plain(each) for each in found]
        case _:
            return found


def _row(rng: random.Random, id: int) -> Row:
    return (id, *(value_for(column, rng) for column in COLUMNS[1:]))


def _rows(rng: random.Random, count: int) -> pa.RecordBatch:
    return batch_of(TABLE, [_row(rng, id) for id in range(count)])


_TYPES, _COLLATIONS = [column.type for column in COLUMNS], [column.collation for column in COLUMNS]


# — rows and state


@pair
def encoded_rows(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    return lambda: encode_columns(rows.columns, _TYPES, _COLLATIONS)


@pair
def hashed_rows(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    return lambda: hash_columns(rows.columns, _TYPES, _COLLATIONS)


@pair
def row_hash_rows(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    return lambda: row_hash(rows, _TYPES)


@pair
def mixed_rows(rng: random.Random, count: int) -> Run:
    """As operators hash few rows: integers and texts."""
    places = [n for n, type in enumerate(_TYPES) if type in (Type.INTEGER, Type.TEXT)]
    types, rows = [_TYPES[n] for n in places], _rows(rng, count).select(places)
    whole = [n for n, type in enumerate(types) if type is Type.INTEGER]
    keys, kinds = [rows.column(n) for n in whole], [Type.INTEGER] * len(whole)
    return lambda: (row_hash(rows, types), key_hash(keys, kinds, ["BINARY"] * len(whole), count))


def _arrangement(keys: tuple[str, ...]) -> Arrangement:
    store = TableStore(TABLE, Work(), 8)
    if keys:
        store.build(IndexKey.of(TABLE, keys))
    return Arrangement.of(store, keys)


@pair
def key_hash_rows(rng: random.Random, count: int) -> Run:
    arrangement, rows = _arrangement(rng.choice(((), ("a", "b"), ("d",)))), _rows(rng, count)
    encoded = arrangement.encode(rows)
    return lambda: arrangement.hashes(encoded, rows)


@pair
def sorted_hashes(rng: random.Random, count: int) -> Run:
    bits = rng.choice((2, 8, 33, 64))  # few bits: many equals, and none in the upper half
    hash, id = (np.array([rng.getrandbits(bits) for _ in range(count)], np.uint64) for _ in range(2))
    return lambda: (rising(hash), rising_by(hash, id))


@pair
def equal_numbers(rng: random.Random, count: int) -> Run:
    number, own = rng.randrange(9), np.array([rng.randrange(9) for _ in range(count)], np.int64)
    places = np.array([rng.randrange(count) for _ in range(rng.randrange(2 * count))], np.intp)

    def run() -> object:
        many, more = same(number, count), same(number + 1, count)
        pairs = [each for one in (many, own) for each in (latest(one, more), product(one, more), picked(one, places))]
        return [many, *pairs]

    return run


@pair
def sorted_updates(rng: random.Random, count: int) -> Run:
    columns = (Column("k", Type.INTEGER, "INTEGER"), Column("v", Type.INTEGER, "INTEGER"))
    tables = {name: Table(name, columns, ("v",)) for name in ("l", "r")}
    template = plan("SELECT l.k, l.v, r.v AS w FROM l JOIN r ON l.k = r.k", list(tables.values())).template
    assert template.relation is not None
    rows = {name: [(rng.choice((None, *range(count))), n) for n in range(count)] for name in tables}
    whole = {name: [batch_of(tables[name], each)] for name, each in rows.items()}
    news = [Change("l", rows["l"][n], (rng.randrange(count), n)) for n in range(0, count, 2)]
    delta = delta_of(tables["l"], [(2, Transaction(0, tuple(news)))])
    derived = Derived("d", template.relation, tables, Work())

    def run() -> object:
        loaded = sorted(repr(row) for batch in derived.load(whole) for row in batch.to_pylist())
        after = derived.step({"l": [delta]})
        return loaded, [] if after is None else sorted(repr(row) for row in after.batch.to_pylist())

    return run


@pair
def added_values(rng: random.Random, count: int) -> Run:
    columns = (Column("id", Type.INTEGER, "integer"), Column("v", Type.NUMERIC, "numeric"))
    table = Table("t", columns, ("id",), dialect="postgres")
    relation = plan("SELECT sum(v) AS s, avg(v) AS m, count(*) AS n FROM t", [table]).template.relation
    assert relation is not None
    unit = Decimal(rng.choice(("0.1", "0.01")))
    rows = [(n, rng.choice((None, *(rng.randrange(-999, 999) * unit,) * 9))) for n in range(count)]
    whole = {"t": [batch_of(table, rows)]}

    def run() -> object:
        derived = Derived("d", relation, {"t": table}, Work())
        return [repr(row) for batch in derived.load(whole) for row in batch.to_pylist()]

    return run


@pair
def frame_rows(rng: random.Random, count: int) -> Run:
    table = Table("t", COLUMNS[:4], ("id",))
    changes = tuple(Change("t", None, _row(rng, id)[:4]) for id in range(count))
    transaction = Transaction(7, changes)

    def run() -> object:
        [frame] = encode_frames([transaction], {"t": table})
        decoded = decode_frame(b"".join(bytes(piece) for piece in frame), {"t"})
        return [section.batch for section in decoded.sections]

    return run


# — expressions and edits


def _program(sql: str, table: Table = TABLE) -> Program:
    return Program(plan(sql, [table]).template, table)


@pair
def expression_rows(rng: random.Random, count: int) -> Run:
    where = rng.choice(("a + id < 7", "c >= 0 AND NOT a = 1", "b > 'x' OR d > 0", "f BETWEEN '1' AND 'p'", "a / 0 = 1"))
    program = _program(f"SELECT id, a + id AS s, c * 2 AS c2, coalesce(a, 3) AS a3 FROM t WHERE {where} OR id % 2")
    rows, id = _rows(rng, count), np.arange(count, dtype=np.uint64)
    program.see(rows, id)  # what is made once is made
    return lambda: program.see(rows, id)


@pair
def compared_rows(rng: random.Random, count: int) -> Run:
    pool = _rows(rng, count)
    pool = pa.concat_batches([pool, batch_of(TABLE, [tuple(row.values()) for row in pool.to_pylist()[: count // 2]])])
    a, b = (np.array([rng.randrange(pool.num_rows) for _ in range(count)], np.int64) for _ in range(2))
    twins = np.arange(count // 2)
    return lambda: (differ(pool, a, b), differ(pool, twins, twins + count))


def _block(rng: random.Random, count: int) -> Block:
    pool = _rows(rng, count).select(range(1, 5))
    edits = []
    for _ in range(count):
        kind = rng.randrange(4)
        old, new = (rng.randrange(count) if kind in kinds else -1 for kinds in ((2, 3), (0, 1, 2)))
        hashes = (rng.getrandbits(64) if place >= 0 else 0 for place in (old, new))
        places = (rng.randrange(-1, 5) if place >= 0 else -1 for place in (old, new))
        edits.append((rng.randrange(3), rng.randrange(3), kind, *hashes, *places, old, new))
    return FewEdits(edits, pool, (Type.INTEGER, Type.TEXT, Type.REAL, Type.ANY)).block  # type: ignore[arg-type]


@pair
def edit_rows(rng: random.Random, count: int) -> Run:
    block = _block(rng, count)
    return lambda: edits_of([block])


# — windows


@dataclass(frozen=True, slots=True)
class Scene:
    """A dataflow with one template, and a step of `count` changes that waits."""

    flow: Dataflow
    delta: Delta

    @classmethod
    def of(cls, rng: random.Random, count: int, sql: str, windows: int = 1) -> Scene:
        flow = Dataflow()
        flow.define(TABLE)
        rows = {id: _row(rng, id) for id in range(2 * count)}
        for n in range(windows):
            planned = plan(sql.format(n), [TABLE])
            flow.activate(planned.template, {"t": [batch_of(TABLE, list(rows.values()))]})
            flow.subscribe(planned.instance, 1)
        flow.take()
        numbered = [(10 + n // 2, change) for n, change in enumerate(_changes(rng, count, rows))]
        return cls(flow, delta_of(TABLE, [(tx, Transaction(0, (change,))) for tx, change in numbered]))

    @property
    def state(self) -> DataflowState:
        return self.flow._state

    @property
    def active(self) -> ActiveTemplate:
        return next(iter(self.state.active.values()))

    def prepared(self) -> tuple[Arrangement, Changes, RowGroups, Projection]:
        """What a step has at hand when it comes to the windows."""
        arrangement = self.state.arrangement(self.active.template)
        changes = changes_of(self.state.schemas["t"], self.delta, None)
        encoded = arrangement.encode(changes.rows)
        joined = self.active.instances.join(encoded, arrangement.hashes(encoded, changes.rows), None)
        assert joined is not None
        return arrangement, changes, joined, self.active.program.see(changes.rows, changes.id, joined.looked())


def _changes(rng: random.Random, count: int, rows: dict[int, Row]) -> Iterator[Change]:
    for id in rng.sample(sorted(rows), count):
        match rng.randrange(4):
            case 0:
                yield Change("t", rows[id], None)
            case 1:
                yield Change("t", None, _row(rng, id + len(rows)))
            case 2:
                yield Change("t", rows[id], (id, rng.randrange(3), *rows[id][2:]))
            case _:
                yield Change("t", rows[id], _row(rng, id))


@pair
def paired_rows(rng: random.Random, count: int) -> Run:
    table = rng.choice((TABLE, BAG))
    rows = {id: _row(rng, id % 5 if table is BAG else id) for id in range(2 * count)}
    txs = [(n // 3, Transaction(0, (change,))) for n, change in enumerate(_changes(rng, count, rows))]
    delta, schema = delta_of(table, txs), TableSchema.of(table)

    def run() -> object:
        return changes_of(schema, delta, Multiset() if table is BAG else None)

    return run


@pair
def silent_changes(rng: random.Random, count: int) -> Run:
    scene = Scene.of(rng, count, "SELECT a, b FROM t ORDER BY a LIMIT 5")
    _, changes, _, seen = scene.prepared()
    return lambda: StepRows(scene.active.program, changes, seen).silent()


@pair
def grouped_rows(rng: random.Random, count: int) -> Run:
    scene = Scene.of(rng, count, "SELECT id, a FROM t WHERE id = {}", windows=2 * count)
    arrangement = scene.state.arrangement(scene.active.template)
    changes = changes_of(scene.state.schemas["t"], scene.delta, None)
    encoded, room = arrangement.encode(changes.rows), rng.randrange(3)
    hash = arrangement.hashes(encoded, changes.rows)

    def run() -> object:
        joined = scene.active.instances.join(encoded, hash, None)
        return None if joined is None else (joined, joined.troubled(room))

    return run


@pair
def linear_changes(rng: random.Random, count: int) -> Run:
    return _linear(Scene.of(rng, count, f"SELECT id, b, f FROM t{rng.choice(('', ' WHERE a + 0 > 0'))}"))


@pair
def entries(rng: random.Random, count: int) -> Run:
    return _linear(Scene.of(rng, count, "SELECT id, a FROM t WHERE a = {}", windows=4))


def _linear(scene: Scene) -> Run:
    _, changes, joined, seen = scene.prepared()
    instances, outbox = scene.active.instances, Outbox()

    def run() -> object:
        assert linear(scene.active.program, changes, joined, seen, outbox)
        return [outbox, instances.window_slots.records, instances.group_slots.records["size"]]

    return run


@pair
def near_changes(rng: random.Random, count: int) -> Run:
    limit = rng.choice((" LIMIT 2", f" LIMIT {1 + count // 2}", " LIMIT 3 OFFSET 1", ""))
    scene = Scene.of(rng, count, f"SELECT id, a FROM t ORDER BY {rng.choice(('a', 'f DESC', 'd, a'))}{limit}")
    arrangement, changes, joined, seen = scene.prepared()
    outbox = Outbox()

    def run() -> object:
        replay(scene.active.program, arrangement, changes, joined, seen, outbox, DEFAULT)
        groups = scene.active.instances.groups.values()
        ranked = [each.ranked.slice(0, each.size) for each in groups if each.ranked is not None]
        return [outbox, ranked, [each.size for each in groups]]

    return run


def _subscribed(rng: random.Random, count: int, sql: str) -> Run:
    rows, planned = _rows(rng, count), plan(sql, [TABLE])
    flow = Dataflow()
    flow.define(TABLE)
    flow.activate(planned.template, {"t": [rows]})

    def run() -> object:
        flow.subscribe(planned.instance, 1)
        return flow._state.outbox

    return run


@pair
def fetched_rows(rng: random.Random, count: int) -> Run:
    return _subscribed(rng, count, f"SELECT id, a, b FROM t ORDER BY a, id LIMIT {1 + rng.randrange(count)}")


@pair
def found_rows(rng: random.Random, count: int) -> Run:
    """Rows of a store, found by identity, and changed."""
    store, rows = TableStore(TABLE, Work(), max(2 * count, 16)), _rows(rng, count)
    id = np.array(rng.sample(range(1, 1 << 62), count), np.uint64)
    everything = np.ones(count, np.bool_)
    store.absorb(id, everything, rows, {})
    store.settle()
    order = rng.sample(range(count), count)

    def run() -> object:
        found = store.find(id[order].tolist())
        store.absorb(id[order], everything, rows, {}, np.array(order))
        return [found, *store.heap.all()]

    return run


@pair
def sort_key_rows(rng: random.Random, count: int) -> Run:
    return _subscribed(rng, count, f"SELECT id, a FROM t ORDER BY {rng.choice(('c DESC', 'a, c', 'b', 'id'))} LIMIT 9")


# — lists and bounds

_BOUNDS = ("a >= {}", "a >= {} AND c < 2.0", "id BETWEEN {} AND 99", "a IN ({}, 77)", "f > '{}'")


def _wanted(sql: str, n: int) -> tuple[Planned, Wanted]:
    planned = plan(sql.format(n), [TABLE])
    return planned, wanted(planned.template, planned.instance, TABLE)


def _ranges(rng: random.Random, groups: int) -> tuple[Planned, RangeIndex]:
    sql = f"SELECT id, a FROM t WHERE {rng.choice(_BOUNDS)}"
    first, _ = _wanted(sql, 0)
    index, instances = RangeIndex(first.template, Work()), InstanceIndex()
    for n in range(groups):
        planned, asked = _wanted(sql, n)
        slot = instances.group(planned.template.id, encode_instance(planned.template, planned.instance, TABLE)).slot
        index.add(slot + n, b"", asked)
    return first, index


@pair
def wanted_rows(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    _, asked = _wanted(f"SELECT id, a FROM t WHERE {rng.choice(_BOUNDS)}", rng.randrange(4))
    return lambda: asked.mask(rows, TABLE)


@pair
def wanted_pairs(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    _, index = _ranges(rng, 1 + rng.randrange(12))
    return lambda: index.pairs(rows, TABLE, None)


@pair
def masked_rows(rng: random.Random, count: int) -> Run:
    rows = _rows(rng, count)
    _, index = _ranges(rng, 1 + rng.randrange(4))
    return lambda: index.pairs(rows, TABLE, None)
