"""What a cell emits for a recorded log, as lines: a block for each record of its diffs, with the digest of its bytes.

The digest decides; the lines beneath it tell a reader what the bytes say. A window is named by its query and its
parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from headwater.engine.emissions.codec import decode
from headwater.log.segment import SegmentReader
from headwater.model.value import Type, field_type, from_array, held_in
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, SubscribeRecord, decode_control
from headwater.pipeline.records.diff_record import Report
from tests.support.replay import reports

_KINDS = {0: "=", 1: "+", 2: "~", 3: "-"}


@dataclass(slots=True)
class Windows:
    """Readable names: a window is `template number/window number`, in the order of the log."""

    templates: dict[str, str] = field(default_factory=dict)
    instances: dict[int, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, layout: Layout) -> Windows:
        windows = cls()
        with SegmentReader(layout.log) as reader:
            while records := reader.poll():
                for record in records:
                    if record.kind.name in ("ACTIVATE", "SUBSCRIBE"):
                        windows._read(decode_control(record))
        return windows

    def _read(self, control: object) -> None:
        match control:
            case Activate(template=template, sql=sql):
                self._name(template, sql)
            case SubscribeRecord(template=template, instance=instance) as one if instance not in self.instances:
                name = self._name(template, "(asked of the source)")
                self.instances[instance] = f"{name}/{len(self.instances) + 1}"
                frame = "" if one.limit is None else f" limit {one.limit}"
                self.told.append(f"window {self.instances[instance]}: {one.values!r}{frame} offset {one.offset}")

    def _name(self, template: str, sql: str) -> str:
        if template not in self.templates:
            self.templates[template] = f"t{len(self.templates) + 1}"
            self.told.append(f"template {self.templates[template]} {template}: {sql}")
        return self.templates[template]


def lines(layout: Layout) -> Iterator[str]:
    windows = Windows.of(layout)
    yield from windows.told
    for report in reports(layout):
        yield from _report(report, windows)


def _report(report: Report, windows: Windows) -> Iterator[str]:
    told = {**msgspec.structs.asdict(report), "at": 0.0, "pid": 0}
    same = [value for name, value in told.items() if name != "costs"]  # which are measured
    digest = hashlib.sha256(msgspec.msgpack.encode(same)).hexdigest()[:16]
    yield f"record {report.start}-{report.to} position {report.position} bytes {len(report.emitted)} digest {digest}"
    yield from (f"  {line}" for line in emitted_lines(report, windows))


def emitted_lines(report: Report, windows: Windows) -> Iterator[str]:
    if not report.emitted:
        return
    emitted = decode(report.emitted)
    for entry in emitted.index:
        name = windows.instances.get(entry.instance, str(entry.instance))
        reason = f" {entry.reason!r}" if entry.reason else ""
        yield f"{name} tx {entry.tx:x} prev {entry.prev:x} {entry.kind}{reason} at {report.positions.get(entry.tx)}"
    for batch in emitted.edits.values():
        columns = {field.name: _values(field, batch[field.name]) for field in batch.schema}
        for values in zip(*columns.values(), strict=True):
            yield _edit(dict(zip(columns, values, strict=True)), windows)


def _values(field: pa.Field, column: pa.Array) -> list[Any]:
    """As Arrow holds them; but where types are mixed, which depends on the cut of the steps, as they are."""
    is_mixed = field.metadata and field_type(field) is Type.ANY
    return from_array(column, Type.ANY) if is_mixed else held_in(column)


def _edit(row: dict[str, Any], windows: Windows) -> str:
    name = windows.instances.get(row["instance"], str(row["instance"]))
    hashes = "→".join(f"{row[side] & 0xFFFF:04x}" for side in ("old_hash", "new_hash") if row[side])
    places = "→".join(str(row[side]) for side in ("old_index", "index") if row[side] is not None)
    sides = {side: [repr(row[key]) for key in row if key.startswith(side)] for side in ("old.", "new.")}
    values = {"=": sides["new."], "+": sides["new."], "-": sides["old."]}.get(_KINDS[row["kind"]])
    shown = ", ".join(values) if values is not None else f"{', '.join(sides['old.'])} → {', '.join(sides['new.'])}"
    return f"{_KINDS[row['kind']]} {name} tx {row['tx']:x} {hashes} #{places} {shown}"
