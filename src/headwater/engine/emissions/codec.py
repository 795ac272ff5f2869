"""An emission batch as bytes: the payload of a diff record in the log.

The payload is the length of the header, the header, then the Arrow schema and the Arrow batch of each template.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from headwater.engine.emissions.block import RESULT
from headwater.engine.emissions.edits import null_rows
from headwater.engine.emissions.index import PackedIndex, pack, unpack
from headwater.engine.emissions.outbox import EmissionBatch

_OLD_ROWS_MIN = 17  # part of the format: results with fewer rows are written with their empty old rows


class _Header(msgspec.Struct, array_like=True):
    index: PackedIndex
    sections: list[tuple[str, int, int]]  # template, bytes of its schema, bytes of its batch


_HEADER = msgspec.msgpack.Decoder(_Header)


def encode(emitted: EmissionBatch) -> bytes:
    """The payload of a diff record: header length, header, then schema and batch of each template."""
    batches = map(_without_old, emitted.edits.values())
    bodies = [(_schema_bytes(batch.schema), batch.serialize().to_pybytes()) for batch in batches]
    sections = [
        (template, len(schema), len(body)) for template, (schema, body) in zip(emitted.edits, bodies, strict=True)
    ]
    header = msgspec.msgpack.encode(_Header(pack(emitted.index), sections))
    return b"".join([len(header).to_bytes(4, "little"), header, *(part for body in bodies for part in body)])


def decode(payload: bytes | memoryview) -> EmissionBatch:
    view = memoryview(payload)
    start = 4 + int.from_bytes(view[:4], "little")
    header = _HEADER.decode(view[4:start])
    edits: dict[str, pa.RecordBatch] = {}
    for template, schema_bytes, body_bytes in header.sections:
        body = start + schema_bytes
        schema = _schema(bytes(view[start:body]))
        start = body + body_bytes
        edits[template] = _with_old(pa.ipc.read_record_batch(pa.py_buffer(view[body:start]), schema))
    return EmissionBatch(unpack(header.index), edits)


def _without_old(batch: pa.RecordBatch) -> pa.RecordBatch:
    """First results have no rows of before: those are not written."""
    first, count = batch.schema.get_field_index("old.0"), batch.num_columns
    if first < 0 or batch.num_rows < _OLD_ROWS_MIN or not (np.asarray(batch.column("kind")) == RESULT).all():
        return batch
    return batch.select([*range(first), *range(first + (count - first) // 2, count)])


def _with_old(batch: pa.RecordBatch) -> pa.RecordBatch:
    first = batch.schema.get_field_index("new.0")
    if first < 0 or batch.schema.names[first - 1] != "index":
        return batch
    new = [batch.schema.field(n) for n in range(first, batch.num_columns)]
    old = pa.schema([field.with_name(field.name.replace("new", "old")) for field in new])
    schema = pa.schema([*(batch.schema.field(n) for n in range(first)), *old, *new])
    columns = [*batch.columns[:first], *null_rows(old, batch.num_rows).columns, *batch.columns[first:]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema_bytes(schema: pa.Schema) -> bytes:
    raw: bytes = schema.serialize().to_pybytes()
    return raw


@lru_cache(maxsize=4096)
def _schema(raw: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(raw))
