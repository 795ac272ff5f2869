"""group: GROUP BY and aggregates. A transaction costs one visit to each group that it touches.

Groups in use are Python objects: a change costs its own row, not its group. A group with many values keeps them in
`OrderedKeys`. Without keys there is always exactly one group.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headwater.dialects.registry import DIALECTS
from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.group.accumulators import accumulator
from headwater.engine.rows.arrays import firsts
from headwater.engine.rows.batch import Batch, identified, nothing, table_of
from headwater.engine.rows.work import Work
from headwater.engine.state.object_cache import ObjectCache
from headwater.engine.state.ordered_keys import OrderedKeys, OrderedKeysPart
from headwater.engine.state.persistence import State
from headwater.model.encoding.keys import encode_columns, encode_row, hash_all
from headwater.model.encoding.tagged_bytes import alike
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Row, Type, from_array, pack_any, to_array, unpack_any
from headwater.sql.evaluation import Accumulator, AddsAll, EvaluationError, Evaluator
from headwater.sql.ir.expr import Case, Const, Expr
from headwater.sql.ir.relation import Aggregate, Group, columns_of

FIRST_TX = 0
_SEPARATOR = ","
_ONLY = 0  # the group of an aggregate without keys
_Look = tuple[bytes | None, ...]


@dataclass(slots=True)
class _State:
    """One group. `looks`: how often its key looks how, packed, where equal keys may look different."""

    name: int
    key: Row
    accumulators: list[Accumulator]
    looks: dict[_Look, int] | None
    rows: int = 0
    shown: Row | None = None
    failed: str = ""

    def now(self, always: bool) -> Row | None:
        """The group's row; NULL where the source would raise an error."""
        if not self.rows and not always:
            self.failed = ""
            return None
        results = []
        self.failed = ""
        for each in self.accumulators:
            try:
                results.append(each.result())
            except EvaluationError as error:
                self.failed = str(error)
                results.append(None)
        return (*(_shown(self.looks) if self.looks else self.key), *results)


@dataclass(slots=True)
class _Out:
    rows: list[Row] = field(default_factory=list)
    tx: list[int] = field(default_factory=list)
    diff: list[int] = field(default_factory=list)

    def add(self, row: Row | None, tx: int, diff: int) -> None:
        if row is not None:
            self.rows.append(row)
            self.tx.append(tx)
            self.diff.append(diff)


@dataclass(frozen=True, slots=True)
class _Feed:
    """The values of one aggregate, and which of them count."""

    values: list[Any]
    counts: list[bool] | None

    def add_to(self, accumulator: Accumulator, places: Sequence[int], weights: Sequence[int]) -> None:
        values, counts = self.values, self.counts
        for place in places:
            if counts is None or counts[place]:
                accumulator.add(values[place], weights[place])

    def of(self, places: Sequence[int]) -> list[Any]:
        values, counts = self.values, self.counts
        return [values[place] for place in places if counts is None or counts[place]]


class GroupOperator:
    def __init__(self, group: Group, table: Table, work: Work, failures: Failures, limits: Limits = DEFAULT) -> None:
        self.table = table_of(columns_of(group))
        self._work, self._failures = work, failures
        self._keys = group.key_columns
        evaluator = DIALECTS[table.dialect].evaluator
        self._loose = not all(map(evaluator.looks_alike, group.key_columns))
        self._feeds = [_Inputs(aggregate, evaluator) for aggregate in group.aggregates]
        self._makers = [accumulator(aggregate, evaluator) for aggregate in group.aggregates]
        exprs = [output.expr for output in group.keys] + [expr for feed in self._feeds for expr in feed.exprs]
        self._expressions = Expressions(exprs, table) if exprs else None
        self._groups = ObjectCache(_packed, self._unpacked, work, limits.open_groups_max)
        self._portion = max(limits.open_groups_max // 2, 1)
        self._values = OrderedKeys(work)

    def step(self, inputs: list[Batch]) -> Batch:
        (batch,) = inputs
        out = _Out()
        if not self._keys:
            self._open(out)
        if len(batch):
            columns: list[pa.Array] = []
            if self._expressions is not None:
                columns, batch = self._failures.passing(self._expressions, batch)
            if len(batch):
                self._advance(columns, batch, out)
        return self._batch(out)

    def _open(self, out: _Out) -> None:
        """The one group of an aggregate without keys, over nothing, where there is none yet."""
        self._groups.fetch([_ONLY])
        if self._groups.get(_ONLY) is None:
            only = self._new(_ONLY, ())
            only.shown = only.now(always=True)
            self._groups.put(_ONLY, only)
            out.add(only.shown, FIRST_TX, 1)

    def _new(self, name: int, key: Row) -> _State:
        parts = (OrderedKeysPart(self._values, struct.pack(">QH", name, n)) for n in range(len(self._makers)))
        accumulators = [make(part) for make, part in zip(self._makers, parts, strict=True)]
        return _State(name, key, accumulators, {} if self._loose else None)

    def _advance(self, columns: list[pa.Array], batch: Batch, out: _Out) -> None:
        count = len(self._keys)
        types = self._expressions.types if self._expressions is not None else []
        encoded = self._hashes(columns[:count], types[:count], len(batch))
        keys = list(zip(*(from_array(a, t) for a, t in zip(columns[:count], types[:count], strict=True)), strict=True))
        feeds = []
        for each in self._feeds:
            end = count + len(each.exprs)
            feeds.append(each.feed(columns[count:end], types[count:end], len(batch)))
            count = end
        numbers: dict[int, int] = {}
        number = np.fromiter((numbers.setdefault(key, len(numbers)) for key in encoded), np.int64, len(encoded))
        order = np.lexsort((batch.id, batch.tx, number))
        cuts = [*firsts((number[order], batch.tx[order])).tolist(), len(order)]
        rows, diff, tx = order.tolist(), batch.diff.tolist(), batch.tx.tolist()
        names, fetched = list(numbers), 0
        for start, end in pairwise(cuts):
            touched = rows[start:end]
            if number[touched[0]] == fetched:
                self._groups.fetch(names[fetched : fetched + self._portion])
                fetched += self._portion
            self._touch(encoded[touched[0]], keys, touched, diff, feeds, tx[touched[0]], out)

    def _touch(
        self,
        encoded: int,
        keys: list[Row],
        touched: list[int],
        diff: list[int],
        feeds: list[_Feed],
        tx: int,
        out: _Out,
    ) -> None:
        """One group, one transaction."""
        state = self._groups.get(encoded)
        if state is None:
            state = self._new(encoded, keys[touched[0]])
            self._groups.put(encoded, state)
        weights = [diff[place] for place in touched]
        state.rows += sum(weights)
        if state.looks is not None:
            for place, weight in zip(touched, weights, strict=True):
                _count(state.looks, tuple(map(pack_any, keys[place])), weight)
        all_come = len(touched) > SMALL.added_values and weights.count(1) == len(weights)
        for each, feed in zip(state.accumulators, feeds, strict=True):
            if all_come and isinstance(each, AddsAll):
                each.add_all(feed.of(touched))
            else:
                feed.add_to(each, touched, diff)
        self._work.gathered += 1
        self._show(state, encoded, tx, out)

    def _show(self, state: _State, encoded: int, tx: int, out: _Out) -> None:
        failed = state.failed
        now = state.now(always=not self._keys)
        if failed != state.failed:
            for reason, diff in ((failed, -1), (state.failed, 1)):
                if reason:
                    self._failures.note({0: reason}, self._key_row(state), np.array([tx]), np.array([diff]))
        if not _same(state.shown, now):
            out.add(state.shown, tx, -1)
            out.add(now, tx, 1)
            state.shown = now
        if now is None:
            self._groups.drop(encoded)

    def _key_row(self, state: _State) -> pa.RecordBatch:
        """What is known of a group that fails."""
        arrays = [to_array([value], column.type) for value, column in zip(state.key, self._keys, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=table_of(self._keys).arrow)

    def _hashes(self, arrays: list[pa.Array], types: Sequence[Type], count: int) -> list[int]:
        if not arrays:
            return [_ONLY] * count
        encoded = encode_columns(arrays, types, [column.collation for column in self._keys])
        hashes: list[int] = hash_all(encoded).tolist()
        return hashes

    def _batch(self, out: _Out) -> Batch:
        if not out.rows:
            return nothing(self.table)
        pairs = zip(zip(*out.rows, strict=True), self.table.columns, strict=True)
        arrays = [to_array(values, column.type) for values, column in pairs]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.table.arrow)
        return identified(rows, self.table, np.array(out.tx, np.int64), np.array(out.diff, np.int64)).consolidated()

    def state(self) -> list[State]:
        return [self._groups, self._values]

    def resume(self) -> None:
        """All state is in the memos, and beside them."""

    def _unpacked(self, packed: bytes) -> _State:
        name, key, count, looks, dumped = msgspec.msgpack.decode(packed)
        state = self._new(name, tuple(map(unpack_any, key)))
        state.rows = count
        if state.looks is not None:
            state.looks.update({tuple(look): weight for look, weight in looks})
        for each, one in zip(state.accumulators, dumped, strict=True):
            each.load(one)
        state.shown = state.now(always=not self._keys)
        return state


class _Inputs:
    """The expressions of one aggregate: its value, its filter, its order, and where it joins texts its separator and,
    with DISTINCT, the value that its text was made of."""

    def __init__(self, aggregate: Aggregate, evaluator: Evaluator) -> None:
        self._concat = aggregate.function in ("group_concat", "string_agg")
        self._collects = aggregate.function == "array_agg"
        self._order = aggregate.order
        self._filtered = aggregate.filter is not None
        args = evaluator.arguments(aggregate)
        self._args = len(args)
        filters = [] if aggregate.filter is None else [_as_truth(aggregate.filter)]
        self._compared = aggregate.collation if self._concat and aggregate.distinct else None
        plain = [] if self._compared is None else [aggregate.args[0]]
        self.exprs: list[Expr] = [*args, *filters, *(key.expr for key in self._order), *plain]

    def feed(self, columns: list[pa.Array], types: Sequence[Type], count: int) -> _Feed:
        counts = [bool(each) for each in columns[self._args].to_pylist()] if self._filtered else None
        if not self._args:
            return _Feed([1] * count, counts)
        values = from_array(columns[0], types[0])
        if self._collects:
            packed = (pack_any(value) or b"" for value in values)
            return _Feed(list(zip(self._places(columns, types), packed, strict=True)), counts)
        return _Feed(self._texts(values, columns, types) if self._concat else values, counts)

    def _texts(self, values: list[Any], columns: list[pa.Array], types: Sequence[Type]) -> list[Any]:
        separators = columns[1].to_pylist() if self._args > 1 else [_SEPARATOR] * len(values)
        places, keys = self._places(columns, types), [b""] * len(values)
        if self._compared is not None:
            keys = encode_columns(columns[-1:], types[-1:], [self._compared])
        entries = zip(places, values, separators, keys, strict=True)
        return [None if text is None else (place, text, sep or "", key) for place, text, sep, key in entries]

    def _places(self, columns: list[pa.Array], types: Sequence[Type]) -> list[bytes]:
        """Where each value stands in the order."""
        start = self._args + self._filtered
        end = start + len(self._order)
        if not self._order:
            return [b""] * len(columns[0])
        return encode_columns(
            columns[start:end],
            types[start:end],
            [key.collation for key in self._order],
            [key.descending for key in self._order],
            [key.nulls_first for key in self._order],
        )


def _as_truth(where: Expr) -> Expr:
    return Case(((where, Const(1, Type.INTEGER)),), Const(0, Type.INTEGER), Type.INTEGER)


def _count(looks: dict[_Look, int], look: _Look, weight: int) -> None:
    total = looks.get(look, 0) + weight
    looks[look] = total
    if not total:
        del looks[look]


def _shown(looks: Iterable[_Look]) -> Row:
    """Of keys that are equal the one whose values come first, and then by how they look."""
    rows = [(tuple(map(unpack_any, look)), look) for look in looks]
    return min(rows, key=lambda each: _order(*each))[0]


def _order(row: Row, look: _Look) -> tuple[bytes, list[str], list[bytes]]:
    names = [value.__class__.__name__ for value in row]
    return encode_row(row, ["BINARY"] * len(row)), names, [each or b"" for each in look]


def _same(one: Row | None, other: Row | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(map(alike, one, other))


def _packed(state: _State) -> bytes:
    looks = [[list(look), weight] for look, weight in (state.looks or {}).items()]
    dumped = [each.dump() for each in state.accumulators]
    return msgspec.msgpack.encode([state.name, list(map(pack_any, state.key)), state.rows, looks, dumped])
