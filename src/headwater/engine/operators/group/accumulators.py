"""Accumulators: what a group knows of the values of one aggregate. Values come and go, in any order and number.

Values that have to be kept are in memory while a group has few of them, then in `OrderedKeys`: what is shown is the
same. Sums are the dialect's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from headwater.engine.operators.group.array_agg import Collected, weigh
from headwater.engine.state.ordered_keys import OrderedKeysPart, bearing, borne
from headwater.engine.state.ordered_keys_head import OrderedKeysHead
from headwater.model.encoding.keys import BEHIND, encode_value
from headwater.model.time.interval import Interval
from headwater.model.value import Value, pack_any, unpack_any
from headwater.sql.evaluation import Accumulator, Evaluator
from headwater.sql.ir.relation import Aggregate

_GONE_MAX = 16
VALUES_MAX = 256  # of a min or max in Python's own structures; more are kept in their places
PIECES_MAX = 4096  # of a group_concat, which reads all of them with each change
_COUNTED_ONCE = ("count", "sum", "total", "avg")


class Count:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Any, weight: int) -> None:
        if value is not None:
            self.count += weight

    def add_all(self, values: Sequence[Any]) -> None:
        """As `add` of each, once."""
        self.count += sum(value is not None for value in values)

    def result(self) -> Value:
        return self.count

    def dump(self) -> Any:
        return self.count

    def load(self, dumped: Any) -> None:
        self.count = dumped


class Extreme:
    """min and max: a heap of what was ever there, cleared of what is gone when it comes to the top. Where there are
    many values, the first of their places.

    Two plain dicts, not one of pairs: the garbage collector looks into pairs, over and over."""

    __slots__ = ("collation", "descending", "gone", "heap", "many", "part", "values", "weights")

    def __init__(self, part: OrderedKeysPart, collation: str, descending: bool) -> None:
        self.part, self.collation, self.descending = part, collation, descending
        self.values: dict[bytes, Value] = {}
        self.weights: dict[bytes, int] = {}
        self.heap: list[bytes] = []
        self.gone = 0
        self.many: OrderedKeysHead | None = None

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        key = encode_value(value, collation=self.collation, descending=self.descending) + BEHIND + _look(value)
        if self.many is not None:
            self.many.change(bearing(key, pack_any(value) or b""), weight)
            return
        had = self.weights.get(key)
        if had is None:
            had = 0
            self.values[key] = value
            heapq.heappush(self.heap, key)
        elif not had:
            self.gone -= 1
        self.weights[key] = had + weight
        if not had + weight:
            self.gone += 1
            self._shrink()
        elif len(self.heap) > VALUES_MAX:
            self._move_out()

    def _shrink(self) -> None:
        """What is gone never outweighs what is there."""
        if self.gone > _GONE_MAX and 2 * self.gone > len(self.heap):
            self.weights = {key: weight for key, weight in self.weights.items() if weight}
            self.values = {key: self.values[key] for key in self.weights}
            self.heap = sorted(self.weights)
            self.gone = 0

    def _move_out(self) -> None:
        self.many = OrderedKeysHead(self.part, 1, new=True)
        for key, weight in self.weights.items():
            if weight:
                self.many.change(bearing(key, pack_any(self.values[key]) or b""), weight)
        self.values, self.weights, self.heap = {}, {}, []

    def result(self) -> Value:
        if self.many is not None:
            self.many.fill()
            first = next(iter(self.many), None)
            return None if first is None else unpack_any(borne(first[0]))
        while self.heap:
            key = self.heap[0]
            if self.weights[key]:
                return self.values[key]
            heapq.heappop(self.heap)
            del self.weights[key], self.values[key]
            self.gone -= 1
        return None

    def dump(self) -> Any:
        if self.many is not None:
            return None
        return [[pack_any(self.values[key]), weight] for key, weight in self.weights.items() if weight]

    def load(self, dumped: Any) -> None:
        if dumped is None:
            self.many = OrderedKeysHead(self.part, 1)
        for value, weight in dumped or ():
            self.add(unpack_any(value), weight)


class DistinctValues:
    """Each value once for the accumulator inside; of equal ones the first that came."""

    __slots__ = ("collation", "inside", "values", "weights")

    def __init__(self, collation: str, inside: Accumulator) -> None:
        self.collation, self.inside = collation, inside
        self.values: dict[bytes, Value] = {}
        self.weights: dict[bytes, int] = {}

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        key = encode_value(value, collation=self.collation)
        had = self.weights.get(key, 0)
        if not had:
            self.values[key] = value
            self.inside.add(value, 1)
        self.weights[key] = had + weight
        if not had + weight:
            self.inside.add(self.values.pop(key), -1)
            del self.weights[key]

    def result(self) -> Value:
        return self.inside.result()

    def dump(self) -> Any:
        return [[pack_any(self.values[key]), weight] for key, weight in self.weights.items()]

    def load(self, dumped: Any) -> None:
        for value, weight in dumped:
            self.add(unpack_any(value), weight)


Piece = tuple[bytes, str, str, bytes]


class Concat:
    """group_concat and string_agg: (place in the order, text, separator, key) of each value. A separator stands before
    its value.

    With DISTINCT the first of each key counts, once. Many are kept in their places."""

    __slots__ = ("distinct", "many", "part", "there", "weights")

    def __init__(self, part: OrderedKeysPart, distinct: bool) -> None:
        self.part, self.distinct = part, distinct
        self.there: list[Piece] = []
        self.weights: dict[Piece, int] = {}
        self.many = False

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        if self.many:
            self.part.add(_place(value), weight)
            return
        weigh(self.there, self.weights, value, weight)
        if len(self.there) > PIECES_MAX:
            self._move_out()

    def _move_out(self) -> None:
        for value, weight in self.weights.items():
            self.part.add(_place(value), weight)
        self.there, self.weights, self.many = [], {}, True

    def _pieces(self) -> Iterator[tuple[Piece, int]]:
        """In their order, each with how often it is there."""
        if self.many:
            return ((_piece(place), times) for place, times in self.part.behind())
        return ((piece, self.weights[piece]) for piece in self.there)

    def result(self) -> Value:
        pieces: list[str] = []
        seen: set[bytes] = set()
        for (_, text, separator, key), times in self._pieces():
            if self.distinct:
                times = 0 if key in seen else 1
                seen.add(key)
            pieces += [separator, text] * times
        return "".join(pieces[1:]) if pieces else None

    def dump(self) -> Any:
        if self.many:
            return None
        return [[*_packed(piece), times] for piece, times in self._pieces()]

    def load(self, dumped: Any) -> None:
        self.many = dumped is None
        for *packed, weight in dumped or ():
            self.add(_unpacked(packed), weight)


def _place(piece: Piece) -> bytes:
    """Where it stands among all."""
    return bearing(b"".join([encode_value(each) for each in piece]), msgspec.msgpack.encode(_packed(piece)))


def _piece(place: bytes) -> Piece:
    return _unpacked(msgspec.msgpack.decode(borne(place)))


def _packed(piece: Piece) -> list[Any]:
    place, text, separator, key = piece
    return [place, pack_any(text), pack_any(separator), key]


def _unpacked(packed: Sequence[Any]) -> Piece:
    place, text, separator, key = packed
    return place, unpack_any(text), unpack_any(separator), key


def accumulator(aggregate: Aggregate, evaluator: Evaluator) -> Callable[[OrderedKeysPart], Accumulator]:
    """What makes an accumulator for each group. It has a part of its own for its values."""
    inside = _plain(aggregate, evaluator)
    if aggregate.distinct and aggregate.function in _COUNTED_ONCE:
        return lambda part: DistinctValues(aggregate.collation, inside(part))
    return inside


def _plain(aggregate: Aggregate, evaluator: Evaluator) -> Callable[[OrderedKeysPart], Accumulator]:
    match aggregate.function:
        case "count":
            return lambda _: Count()
        case "min" | "max":
            return lambda part: Extreme(part, aggregate.collation, aggregate.function == "max")
        case "group_concat" | "string_agg":
            return lambda part: Concat(part, aggregate.distinct)
        case "array_agg":
            return lambda _: Collected(aggregate.distinct)
        case _:
            make = evaluator.sum(aggregate)
            return lambda _: make()


def _look(value: Value) -> bytes:
    """Tells equal values apart that look different: the smallest look is the one shown."""
    if value.__class__ is int:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return (pack_any(value) or b"") if isinstance(value, float | Decimal | Interval) else b""
