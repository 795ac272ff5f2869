"""Lists and bounds as parameters: a row finds exactly the groups that want it, whatever came and went before, and every
subscription is right at every transaction, however many of one template there are and however steps are cut."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.dataflow import Dataflow
from headwater.engine.emissions.codec import decode, encode
from headwater.engine.ranges.range_index import RangeIndex
from headwater.engine.ranges.ranges import wanted
from headwater.engine.ranges.segment_tree import SegmentTree
from headwater.engine.ranking.rank import LimitRange
from headwater.engine.rows.work import Work
from headwater.engine.windows.instance_index import InstanceIndex, encode_instance
from headwater.engine.windows.window import Window
from headwater.model.change import Change, Transaction
from headwater.model.encoding.keys import encode_row
from headwater.model.schema import Column, Table
from headwater.model.value import Row, Type
from headwater.plan.planner import Planned, plan
from tests.engine.test_dataflow import SMALL, check, history, oracle_of, run_in_steps, start
from tests.engine.world import FUZZ, KEYS, Oracle, Origin, Subscriber, batch_of, deliver, delta_of, table_of
from tests.sql.written import examples

TABLE = table_of(("id",))
SHAPES = (
    "a IN ({ints})",
    "a < {int}",
    "a >= {int} AND a < {int}",
    "a BETWEEN {int} AND {int}",
    "b > {text}",
    "b IN ({texts})",
    "c <= {real}",
    "c IN ({reals}) AND a > {int}",
    "d > {any}",
    "d IN ({anys})",
    "e < {blob}",
    "f BETWEEN {text} AND {text}",
    "a = {int} AND c > {real}",
    "a = {int} AND b IN ({texts})",
    "a = {int} AND b IN ({texts}) AND id < {int} AND f IN ({texts}) AND c >= {real}",
    "d = {any} AND f > {text} AND f <= {text}",
    "id % 2 = 0 AND a > {int}",
    "a IN ({ints}) AND a > 0",
)
OUTPUTS = ("*", "id, a", "b, c", "a + id AS s, d", "f")
TAILS = ("", "", " ORDER BY c DESC, a", " ORDER BY b LIMIT 3", " LIMIT 2 OFFSET 1", " ORDER BY d")
INTS = ("0", "1", "2", "3", "-1", "7", "1.0", "'2'")
TEXTS = ("'x'", "'X'", "'y'", "'é'", "''", "'p'", "'P'", "'9'", f"'{'x' * 70}'", f"'{'x' * 80}'")
REALS = ("0.0", "-0.0", "1.5", "-2.5", "1", "1e300", "9e999", "-9e999")
BLOBS = ("x''", "x'61'", "x'6100'", "x'ff'")
ANYS = (*INTS, *TEXTS[:4], *BLOBS, "9007199254740993", "9007199254740992.0")
DOMAINS = {"int": INTS, "text": TEXTS, "real": REALS, "blob": BLOBS, "any": ANYS}


def filled(shape: str, rng: random.Random) -> str:
    """A shape with constants: `{int}` is one of them, `{ints}` a list that may hold NULL, or the same twice."""
    for name, domain in DOMAINS.items():
        while f"{{{name}}}" in shape:
            shape = shape.replace(f"{{{name}}}", rng.choice(domain), 1)
        while f"{{{name}s}}" in shape:
            items = [rng.choice((*domain, "NULL")) for _ in range(rng.randint(2, 5))]
            shape = shape.replace(f"{{{name}s}}", ", ".join(items), 1)
    return shape


def asked(shape: str, outputs: str, tail: str, rng: random.Random, table: Table = TABLE) -> Planned:
    return plan(f"SELECT {outputs} FROM t WHERE {filled(shape, rng)}{tail}", [table])


def several(rng: random.Random, table: Table, count: int) -> list[Planned]:
    """Queries of a few shapes, each several times."""
    shapes = [(rng.choice(SHAPES), rng.choice(OUTPUTS), rng.choice(TAILS)) for _ in range(3)]
    found = {one.instance.id: one for one in (asked(*rng.choice(shapes), rng, table) for _ in range(count))}
    return list(found.values())


# — the index


_bytes = st.binary(max_size=3) | st.binary(min_size=1, max_size=2).map(lambda raw: raw * 40)
_spans = st.lists(st.tuples(_bytes, _bytes).map(lambda pair: (min(pair) + b"\x01", max(pair) + b"\x01")), min_size=1)


@examples(200)
@given(_spans, st.lists(_bytes.map(lambda raw: raw + b"\x03"), min_size=1))
def test_a_point_finds_the_spans_it_lies_in(spans: list[tuple[bytes, bytes]], points: list[bytes]) -> None:
    filed = SegmentTree(spans)
    found = set(zip(*(each.tolist() for each in filed.find(points)), strict=True))
    right = {(p, s) for p, point in enumerate(points) for s, (low, high) in enumerate(spans) if low <= point < high}
    assert found >= right
    assert not filed.exact or found == right


def opened(params: InstanceIndex, planned: Planned) -> Window:
    template, instance = planned.template, planned.instance
    group = params.group(template.id, encode_instance(template, instance, TABLE), wanted(template, instance, TABLE))
    return params.open(instance, group, LimitRange(), 1, 0)


def right_pairs(oracle: Oracle, windows: list[Window], rows: list[Row], by_id: dict[int, str]) -> set[tuple[int, int]]:
    """By SQLite, row by row."""
    pairs = set()
    for place, row in enumerate(rows):
        oracle.fill([row])
        for window in windows:
            if oracle.memory.execute(f"SELECT 1 FROM t WHERE {by_id[window.instance.id]}").fetchone():
                pairs.add((place, window.group.slot))
    return pairs


@pytest.mark.parametrize("count", [3, 90])
@pytest.mark.parametrize("shape", SHAPES[:16])
def test_a_row_finds_the_groups_that_want_it(shape: str, count: int) -> None:
    rng = random.Random(f"{shape} {count}")
    origin = Origin(TABLE, rng)
    first = asked(shape, "*", "", rng)
    selection = RangeIndex(first.template, Work())
    params, windows, by_id = InstanceIndex(selection), list[Window](), dict[int, str]()
    with oracle_of(TABLE) as oracle:
        for turn in range(8 * FUZZ):
            for _ in range(rng.choice((1, count))):
                text = filled(shape, rng)
                planned = plan(f"SELECT * FROM t WHERE {text}", [TABLE])
                if planned.template == first.template and planned.instance.id not in by_id:
                    by_id[planned.instance.id] = text
                    windows.append(opened(params, planned))
            for _ in range(rng.randrange(max(len(windows), 1))):
                gone = windows.pop(rng.randrange(len(windows)))
                del by_id[gone.instance.id]
                params.close(gone)
            rows = [origin.random_row() for _ in range(rng.choice((1, 3, 80)) if turn else 80)]
            batch, keys = batch_of(TABLE, rows), first.template.keys
            encoded = _encoded(rows, keys) if keys else None
            row, slot = selection.pairs(batch, TABLE, encoded)
            pairs = list(zip(row.tolist(), slot.tolist(), strict=True))
            assert pairs == sorted(right_pairs(oracle, windows, rows, by_id))
            for window in windows[:5]:
                chosen = window.group.wanted.mask(batch, TABLE) if window.group.wanted is not None else None
                assert chosen is not None and (not keys) <= (
                    np.flatnonzero(chosen).tolist() == [place for place, one in pairs if one == window.group.slot]
                )


def _encoded(rows: list[Row], keys: tuple[str, ...]) -> list[bytes]:
    places = [TABLE.index(name) for name in keys]
    collations = [TABLE.column(name).collation for name in keys]
    return [encode_row(tuple(row[place] for place in places), collations) for row in rows]


# — the whole dataflow


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(6 * FUZZ))
def test_instances_of_one_template_are_right_at_every_transaction(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"selection {key}{seed}")
    table = table_of(key)
    origin, flow = Origin(table, rng), Dataflow(limits=SMALL)
    subscribers: list[Subscriber] = []
    waiting = several(rng, table, 25)
    flow.define(table)
    with oracle_of(table) as oracle:
        for tx in range(1, 40):
            if waiting and rng.random() < 0.8:
                subscribers.append(Subscriber(waiting.pop()))
                assert start(flow, origin, subscribers[-1].planned, 2 * tx)
            if len(subscribers) > 4 and rng.random() < 0.15:
                flow.unsubscribe(subscribers.pop(rng.randrange(len(subscribers))).planned.instance.id, 2 * tx)
            flow.step({table.name: [delta_of(table, [(2 * tx + 1, origin.transaction(12))])]})
            deliver(decode(encode(flow.take())), subscribers)
            check(oracle, origin, subscribers)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(4 * FUZZ))
def test_however_steps_are_cut_instances_of_one_template_hear_the_same(key: tuple[str, ...], seed: int) -> None:
    rng = random.Random(f"selection cut {key}{seed}")
    table = table_of(key)
    first, txs = history(table, rng, 50)
    plans = several(rng, table, 12)
    whole = [encode(run_in_steps(table, first, txs, plans, cut)) for cut in (50, 7, 1)]
    assert whole[0] == whole[1] == whole[2]


@pytest.mark.parametrize("seed", range(4 * FUZZ))
def test_instances_that_were_saved_go_on(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"selection saved {seed}")
    first, txs = history(TABLE, rng, 12)
    plans, flow = several(rng, TABLE, 12), Dataflow(limits=SMALL)
    flow.define(TABLE)
    for planned in plans:
        start(flow, first, planned, 1)
    flow.take()
    loaded = Dataflow.load(tmp_path, flow.save(tmp_path).document, limits=SMALL)
    for tx, one in enumerate(txs, 10):
        for each in (flow, loaded):
            each.step({TABLE.name: [delta_of(TABLE, [(tx, one)])]})
        assert encode(flow.take()) == encode(loaded.take())


@pytest.mark.parametrize("seed", range(4 * FUZZ))
def test_partitions_share_the_instances_and_together_tell_all(seed: int) -> None:
    rng = random.Random(f"selection partitions {seed}")
    first, txs = history(TABLE, rng, 20)
    plans = several(rng, TABLE, 20)
    flows = [Dataflow(limits=SMALL, partition=(q, 3)) for q in range(3)]
    for flow in flows:
        flow.define(TABLE)
    for planned in plans:
        assert [start(flow, first, planned, 1) for flow in flows].count(True) == 1
    for tx, one in enumerate(txs, 10):
        for flow in flows:
            flow.step({TABLE.name: [delta_of(TABLE, [(tx, one)])]})
    alone = run_in_steps(TABLE, first, txs, plans, 1)
    told = [entry for flow in flows for entry in flow.take().index]
    assert sorted(told) == sorted(alone.index)


def test_a_column_that_turns_any_keeps_its_groups() -> None:
    table = replace(TABLE, columns=tuple(c for c in TABLE.columns if c.name in ("id", "a")))
    flow, planned = Dataflow(limits=SMALL), [plan(f"SELECT id FROM t WHERE a > {n}", [table]) for n in (0, 5)]
    flow.define(table)
    flow.activate(planned[0].template, {"t": [batch_of(table, [(1, 3), (2, 9)])]})
    for one in planned:
        flow.subscribe(one.instance, 1)
    before = flow.take()
    mixed = replace(table, columns=(table.columns[0], Column("a", Type.ANY, "INTEGER")))
    flow.define(mixed)
    flow.step({"t": [delta_of(mixed, [(2, _inserted((3, "text")))])]})
    assert len(before.index) == len(flow.take().index) == 2


def _inserted(row: Row) -> Transaction:
    return Transaction(0, (Change("t", None, row),))
