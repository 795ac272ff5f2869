"""Emissions to wire messages and back. The body is encoded once per window and emission; the subscription's id is put
in front for each subscriber."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, assert_never

import msgspec

from headwater.model.emission import Diff, Emission, Fields, Result, RowChange, Swap
from headwater.model.errors import ProtocolError
from headwater.model.union import Value
from headwater.protocol.messages import WireChange, WireDiff, WireResult, WireSwap
from headwater.protocol.values import from_wire, row_to_wire, to_wire

_ENCODER = msgspec.json.Encoder()
_VALUES_AT_ONCE = 10_000
_PLAIN = frozenset({int, str, bytes, bool, type(None)})  # equal ones look alike


def encode_body(emission: Emission) -> bytes:
    """The message without its first field, `id`: see `with_id`."""
    if isinstance(emission, Result) and len(emission.rows) * len(emission.columns) > _VALUES_AT_ONCE:
        return b"".join(_large_body(emission))
    return _body(emission)


def _body(emission: Emission) -> bytes:
    encoded = _ENCODER.encode(_wire("", emission))
    return encoded[encoded.index(b'"id":""') + len(b'"id":""') :]


def _large_body(result: Result) -> Iterator[bytes]:
    """What `_body` returns, in pieces: no other thread of this process runs while one of them is encoded."""
    head, rows, tail = _body(replace(result, rows=())).partition(b'"rows":[')
    yield head + rows
    some = max(1, _VALUES_AT_ONCE // len(result.columns))
    for start in range(0, len(result.rows), some):
        values = [row_to_wire(row.values()) for row in result.rows[start : start + some]]
        yield (b"," if start else b"") + _ENCODER.encode(values)[1:-1]
    yield tail


def with_id(kind: str, id: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","id":' + _ENCODER.encode(id) + body


def kind_of(emission: Emission) -> str:
    match emission:
        case Result():
            return "result"
        case Diff():
            return "diff"
        case Swap():
            return "swap"
        case _:
            assert_never(emission)


def _wire(id: str, emission: Emission) -> WireResult | WireDiff | WireSwap:
    seq, prev, gen, position = emission.seq, emission.prev, emission.gen, emission.position
    match emission:
        case Result(rows=rows, hashes=hashes, columns=columns):
            values = [row_to_wire(row.values()) for row in rows]
            return WireResult(id, seq, prev, gen, position, values, list(hashes), list(columns))
        case Diff(changes=changes):
            return WireDiff(id, seq, prev, gen, position, [_wire_change(change) for change in changes])
        case Swap(pairs=pairs):
            return WireSwap(id, seq, prev, gen, position, list(pairs))
        case _:
            assert_never(emission)


def _wire_change(change: RowChange) -> WireChange:
    new = changed_columns(change)
    return WireChange(
        change.type,
        None if new is None else {name: to_wire(value) for name, value in new.items()},
        change.old_hash,
        change.new_hash,
        change.old_index,
        change.index,
    )


def changed_columns(change: RowChange) -> Fields | None:
    """What of `new` the receiver does not have yet. 1 and 1.0, and 0.0 and -0.0, are different values to it."""
    if change.new is None or change.old is None:
        return change.new
    old = change.old
    return {name: value for name, value in change.new.items() if not _looks_alike(old.get(name), value)}


def _looks_alike(a: Value, b: Value) -> bool:
    return a == b if type(a) is type(b) and type(a) in _PLAIN else repr(a) == repr(b)


def from_message(message: WireResult | WireDiff | WireSwap) -> Emission:
    seq, prev, gen, position = message.seq, message.prev, message.gen, message.position
    match message:
        case WireResult():
            columns = tuple(message.columns)
            rows = tuple(_row(columns, row) for row in message.rows)
            if len(rows) != len(message.hashes):
                raise ProtocolError(f"expected a hash for each of {len(rows)} rows, found {len(message.hashes)}")
            return Result(seq, prev, gen, position, rows, tuple(message.hashes), columns)
        case WireDiff():
            return Diff(seq, prev, gen, position, tuple(_from_change(change) for change in message.changes))
        case WireSwap():
            return Swap(seq, prev, gen, position, tuple((a, b) for a, b in message.pairs))
        case _:
            assert_never(message)


def _row(columns: tuple[str, ...], values: list[Any]) -> Fields:
    if len(columns) != len(values):
        raise ProtocolError(f"expected rows of {len(columns)} values, found one of {len(values)}")
    return dict(zip(columns, map(from_wire, values), strict=True))


def _from_change(change: WireChange) -> RowChange:
    new = None if change.new is None else {name: from_wire(value) for name, value in change.new.items()}
    if change.type == "update" and new is None:
        new = {}
    return RowChange(
        change.type,  # type: ignore[arg-type]
        None,
        new,
        change.old_hash,
        change.new_hash,
        change.index,
        change.old_index,
    )
