"""The control records of the log: every record but a frame is one of these."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from headwater.engine.requeried.keyed_rows import Keys
from headwater.log.record import Kind, Record
from headwater.model.encoding.tagged_bytes import storable, storable_rows, stored
from headwater.model.errors import Corrupt
from headwater.model.schema import Table
from headwater.plan.join_order.order import JoinOrder


class CaptureRecord(msgspec.Struct, frozen=True):
    """From here on the table's changes are in the log."""

    table: Table


class Hydration(msgspec.Struct, frozen=True):
    """The rows of a table, so many, as they were at source position `position`. A cell adds the changes past that
    position which were logged from offset `since` on."""

    table: Table
    files: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    position: int = 0
    since: int = 0
    rows: int = 0
    by_key: bool = False  # none of its rows yet: see FetchRecord


class Built(msgspec.Struct, frozen=True):
    """What a cell of a query partition would have of a template once it is past log offset `upto`: the state and its
    files, which lie in a directory of their own."""

    partition: int
    directory: str
    upto: int
    state: bytes
    files: tuple[str, ...]


class Activate(msgspec.Struct, frozen=True):
    """A template comes to life, with the rows of the tables it reads; no files where the cells have them already.

    Where it was built beside the cells, they take what was built: it is the same. `order` is the order in which its
    joins run; None is the one as written, which is that of every record before there were others. `replanned` is why
    they run in another order from here on, of a template that is alive: its windows go on."""

    template: str
    sql: str
    tables: tuple[Hydration, ...]
    built: tuple[Built, ...] = ()
    order: JoinOrder | None = None
    replanned: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Of the rows."""
        return tuple(file for one in self.tables for file in one.files)

    @property
    def kept(self) -> tuple[str, ...]:
        """Everything that must stay where it is until every cell is past this record."""
        return (*self.files, *{one.directory for one in self.built})

    def built_for(self, partition: int) -> Built | None:
        return next((one for one in self.built if one.partition == partition), None)

    @property
    def since(self) -> int:
        return min(one.since for one in self.tables)

    @property
    def position(self) -> int | None:
        """The last source position that any of the rows were read at; none where none were."""
        return max((one.position for one in self.tables if one.files), default=None)


class SubscribeRecord(msgspec.Struct, frozen=True):
    """A row of `params`. For an instance that exists it asks for a snapshot. `boot` is the lease it lives under."""

    template: str
    instance: int
    values: tuple[Any, ...]
    limit: int | None
    offset: int
    boot: int
    answered: bool = False  # the source answers it: see AnswerRecord
    ordered: bool = False  # of an answered one
    keys: Keys | None = None  # of an answered one whose rows have them
    partition: int | None = None  # of an answered one that may be followed again: where it then lives


class UnsubscribeRecord(msgspec.Struct, frozen=True):
    """With a reason, its subscribers are told that it is over; or, where the changes it was made of were `lost`, that
    it must begin anew."""

    instance: int
    reason: str = ""
    lost: bool = False


class AnswerRecord(msgspec.Struct, frozen=True):
    """What the source said to the query of an instance at a source position that the log has reached.

    With `parts` it was asked for these alone: places of columns that are not shown, and values of them. `renamed` are
    the keys that rows were given since the answer before: by such places, packed."""

    instance: int
    position: int
    rows: tuple[tuple[Any, ...], ...]
    parts: tuple[tuple[tuple[int, ...], tuple[tuple[Any, ...], ...]], ...] | None = None
    renamed: tuple[tuple[tuple[int, ...], dict[bytes, bytes]], ...] = ()


class FetchRecord(msgspec.Struct, frozen=True):
    """Of a table that is held by key: the rows whose `columns` have one of these encoded values, as Arrow, as they were
    at source position `position`. From the `last` of several such records on, cells hold them, with the changes past
    that position which were logged from offset `since` on."""

    table: Table
    columns: tuple[str, ...]
    keys: tuple[bytes, ...]
    rows: bytes
    position: int
    since: int
    last: bool = True


class Unwant(msgspec.Struct, frozen=True):
    """Of a table that is held by key, nobody asks for these keys any more: cells let go of their rows."""

    table: str
    columns: tuple[str, ...]
    keys: tuple[bytes, ...]


class Schema(msgspec.Struct, frozen=True):
    """The table's new schema; none when its subscriptions end, with the reason."""

    table: str
    after: Table | None
    reason: str
    retyped: bool = False  # a column that was there has another type now
    lost: bool = False  # the table is there still, but not its changes: its subscriptions may begin anew


class Tick(msgspec.Struct, frozen=True):
    """Time as the pipeline knows it: instances whose lease is older than `boot` expire."""

    boot: int


class Release(msgspec.Struct, frozen=True):
    """Nobody has been subscribed to the template for long: cells let go of it, and of what they keep for it alone."""

    template: str


class MoveRecord(msgspec.Struct, frozen=True):
    """All windows of a template are kept current by another strategy from here on: the source answers them (requery),
    or they are followed (incremental). The template was activated before, where they are followed."""

    template: str
    strategy: str
    reason: str


class EndEpoch(msgspec.Struct, frozen=True):
    """Cells of this boot return."""

    boot: int


class Expel(msgspec.Struct, frozen=True):
    """In one cell a table, relation or template ends, with the reason, before the records after `after` are taken: the
    cell failed at them again and again, or, where `over_budget`, they were too much for one query."""

    cell: int
    after: int
    name: str
    reason: str
    over_budget: bool = False


Control = (
    CaptureRecord
    | Activate
    | SubscribeRecord
    | UnsubscribeRecord
    | AnswerRecord
    | FetchRecord
    | Unwant
    | Schema
    | Tick
    | Release
    | MoveRecord
    | EndEpoch
    | Expel
)
_BY_KIND: dict[Kind, type[Any]] = {
    Kind.CAPTURE: CaptureRecord,
    Kind.ACTIVATE: Activate,
    Kind.SUBSCRIBE: SubscribeRecord,
    Kind.UNSUBSCRIBE: UnsubscribeRecord,
    Kind.ANSWER: AnswerRecord,
    Kind.SCHEMA: Schema,
    Kind.TICK: Tick,
    Kind.RELEASE: Release,
    Kind.MOVE: MoveRecord,
    Kind.END_EPOCH: EndEpoch,
    Kind.DECISION: Expel,
    Kind.FETCH: FetchRecord,
    Kind.UNWANT: Unwant,
}
_KINDS = {type: kind for kind, type in _BY_KIND.items()}
_DECODERS = {kind: msgspec.msgpack.Decoder(type, ext_hook=stored) for kind, type in _BY_KIND.items()}
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")


def encode_control(control: Control) -> tuple[Kind, bytes]:
    return _KINDS[type(control)], _ENCODER.encode(_storable(control))


def _storable(control: Control) -> Control:
    """With values as msgpack holds them without loss."""
    match control:
        case SubscribeRecord(values=values):
            return msgspec.structs.replace(control, values=tuple(storable(values)))
        case AnswerRecord(rows=rows, parts=parts):
            asked = parts and tuple((places, tuple(map(tuple, storable_rows(values)))) for places, values in parts)
            return msgspec.structs.replace(control, rows=tuple(map(tuple, storable_rows(rows))), parts=asked)
        case _:
            return control


def decode_control(record: Record) -> Control:
    try:
        control: Control = _DECODERS[record.kind].decode(record.payload)
    except (KeyError, msgspec.MsgspecError) as error:
        raise Corrupt(
            f"cannot decode the {record.kind.name} record at offset {record.offset}: {error}",
            hint="the log was written by another version, or damaged: start with a fresh data directory",
        ) from None
    return control


def position_of(control: Control) -> int | None:
    """The source position that the log had reached when this was logged, where the record tells."""
    return control.position if isinstance(control, Activate | AnswerRecord | FetchRecord) else None
