"""The records of a log in words: kind, tx, source position, size, and what each says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any

import msgspec

from headwater.log.record import Kind, Record, tx_of
from headwater.pipeline.records.control import decode_control, position_of
from headwater.pipeline.records.frame import Frame, decode_frame

_TEXT_MAX = 60
_ITEMS_MAX = 4
_UNTOLD = ("digests", "state")  # they mean nothing to a reader


@dataclass(frozen=True, slots=True)
class RecordReport:
    """`tx` is that of the record's first transaction; `position` is None where the record tells none."""

    offset: int
    kind: str
    tx: int
    position: int | None
    bytes: int
    says: str


def record_report(record: Record) -> RecordReport:
    """Raises what the decoders raise where the payload does not read."""
    position, says = _frame(decode_frame(record.payload)) if record.kind is Kind.FRAME else _control(record)
    return RecordReport(record.offset, record.kind.name, tx_of(record.offset, 0), position, len(record.payload), says)


def _frame(frame: Frame) -> tuple[int | None, str]:
    count = len(frame.positions)
    words = [f"{count} transaction{'' if count == 1 else 's'}"]
    if frame.part is not None:
        number, is_last = frame.part
        words = [f"part {number + 1} of a transaction{', the last' if is_last else ''}"]
    words += [f"{section.table}: {section.batch.num_rows} rows" for section in frame.sections]
    return frame.position, ", ".join(words)


def _control(record: Record) -> tuple[int | None, str]:
    control = decode_control(record)
    return position_of(control), ", ".join(_fields(control))


def _fields(struct: msgspec.Struct) -> Iterator[str]:
    for name, value in msgspec.structs.asdict(struct).items():
        if name not in _UNTOLD and (told := _brief(value)):
            yield f"{name} {told}"


def _brief(value: Any) -> str:
    """A value in a few words; nothing where there is nothing to tell."""
    match value:
        case None | False | "" | () | b"":
            return ""
        case True:
            return "yes"
        case bytes():
            return f"{len(value)} bytes"
        case str():
            return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}…"
        case tuple() | list():
            more = [f"… {len(value)} in all"] if len(value) > _ITEMS_MAX else []
            return f"[{', '.join([*(_brief(one) or repr(one) for one in value[:_ITEMS_MAX]), *more])}]"
        case msgspec.Struct():
            return f"({', '.join(_fields(value))})"
        case _ if is_dataclass(value) and hasattr(value, "name"):
            return str(value.name)
        case _:
            return str(value)
