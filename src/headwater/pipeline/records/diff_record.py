"""The record of a diff partition: what a cell emitted between two log offsets, and its progress.

A cell appends one per step, also when nothing changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from headwater.engine.emissions.codec import decode, encode_pieces
from headwater.engine.emissions.index import Entry
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.engine.emissions.reader import read_emissions
from headwater.model.emission import Diff, Result
from headwater.model.errors import Corrupt


class Report(msgspec.Struct, frozen=True, array_like=True):
    """`emitted` is the engine's payload, empty where nothing was emitted; `positions` are the source's, by tx.

    `at` and `pid` tell when and where it was written, for metrics alone. `costs` is what relations took since they were
    last told of: microseconds of CPU, and transactions; and, of one whose joins have many more or fewer rows than was
    expected when their order was chosen, how many were expected of the worst join, and how many it has.
    """

    start: int
    to: int
    position: int
    cell: int
    epoch: int
    attempt: int
    at: float
    pid: int
    positions: dict[int, int]
    costs: dict[str, tuple[int, ...]]
    emitted: memoryview


class _EarlierReport(msgspec.Struct, frozen=True, array_like=True):
    """As earlier versions wrote it: without costs."""

    start: int
    to: int
    position: int
    cell: int
    epoch: int
    attempt: int
    at: float
    pid: int
    positions: dict[int, int]
    emitted: memoryview


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to one window: an emission, or (with none) an error or its end, with the reason. What
    is `lost` may begin anew."""

    instance: int
    tx: int
    kind: str
    emission: Result | Diff | None
    reason: str = ""


_DECODER, _EARLIER_DECODER = msgspec.msgpack.Decoder(Report), msgspec.msgpack.Decoder(_EarlierReport)
_EARLIER = b"\x9a"  # how msgpack begins an array of ten
_ENCODER = msgspec.msgpack.Encoder()
_NOTHING, _EMPTY = memoryview(b""), b"\xc4\x00"  # and how msgpack writes it
Names = Callable[[str], Sequence[str] | None]
Defer = Callable[[Sequence[int], Callable[[], list[Event]]], bool]  # the instances, and what reads their events
_MANY_VALUES = 20_000  # of results; reading so many takes milliseconds


def encode_report(
    span: tuple[int, int],
    position: int,
    cell: int,
    epoch: int,
    attempt: int,
    positions: dict[int, int],
    what: EmissionBatch,
    costs: dict[str, tuple[int, ...]] | None = None,
) -> list[bytes | memoryview]:
    """The record's payload, in pieces."""
    pieces = encode_pieces(what) if what.index else []
    report = Report(*span, position, cell, epoch, attempt, time.time(), os.getpid(), positions, costs or {}, _NOTHING)
    return [_ENCODER.encode(report).removesuffix(_EMPTY) + _bin_header(sum(map(len, pieces))), *pieces]


def _bin_header(size: int) -> bytes:
    """What msgpack writes before so many bytes: they are the report's last field."""
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def decode_report(payload: bytes) -> Report:
    try:
        if payload[:1] != _EARLIER:
            return _DECODER.decode(payload)
        return Report(**msgspec.structs.asdict(_EARLIER_DECODER.decode(payload)), costs={})
    except msgspec.MsgspecError as error:
        raise Corrupt(f"cannot decode a report of a cell: {error}") from None


def events_of(report: Report, gen: int, names: Names, defer: Defer | None = None) -> Iterator[Event]:
    """In commit order. Windows of templates that nobody knows by name any more are passed over; and so are large
    results that `defer` takes, with what reads them."""
    if not report.emitted:
        return
    emitted = _decoded(report.emitted)
    entries = list(emitted.index)
    mine: dict[str, list[Entry]] = {template: [] for template in emitted.index.templates}
    for entry in entries:
        mine[entry.template].append(entry)
    deferred = {
        template for template, each in mine.items() if defer and _deferred(emitted, each, report, gen, names, defer)
    }
    emissions = {
        template: _emissions(emitted, template, each, report, gen, names)
        for template, each in mine.items()
        if template not in deferred
    }
    for entry in entries:
        if entry.template in deferred:
            continue
        if entry.kind in ("error", "closed", "lost"):
            yield Event(entry.instance, entry.tx, entry.kind, None, entry.reason)
        elif (read := emissions[entry.template]) is not None:
            yield Event(entry.instance, entry.tx, entry.kind, next(read))


def _deferred(emitted: EmissionBatch, mine: list[Entry], report: Report, gen: int, names: Names, defer: Defer) -> bool:
    """Whether somebody else reads these: results alone, so many that it takes a while."""
    template = mine[0].template if mine else ""
    edits, known = emitted.edits.get(template), names(template)
    if edits is None or known is None or edits.num_rows * len(known) < _MANY_VALUES:
        return False
    if any(entry.kind != "result" for entry in mine):
        return False

    def read() -> list[Event]:
        emissions = read_emissions(mine, edits, known, report.positions.__getitem__, gen)
        return [Event(one.instance, one.tx, one.kind, read) for one, read in zip(mine, emissions, strict=True)]

    return defer([entry.instance for entry in mine], read)


def _decoded(payload: memoryview) -> EmissionBatch:
    try:
        return decode(payload)
    except (msgspec.MsgspecError, pa.ArrowException, ValueError) as error:
        raise Corrupt(f"cannot decode the emissions of a step: {error}") from None


def _emissions(
    emitted: EmissionBatch, template: str, mine: list[Entry], report: Report, gen: int, names: Names
) -> Iterator[Result | Diff] | None:
    known = names(template)
    if known is None:
        return None
    return iter(read_emissions(mine, emitted.edits.get(template), known, report.positions.__getitem__, gen))
