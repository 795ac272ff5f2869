"""An emission batch as bytes: the payload of a diff record in the log.

The payload is the length of the header, the header, then the Arrow schema and the Arrow batch of each template; of
results of a few rows, no schema and a shorter form.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pyarrow as pa

from headwater.engine.emissions.few_edits import decode_few, encode_few
from headwater.engine.emissions.index import PackedIndex, pack, unpack
from headwater.engine.emissions.outbox import EmissionBatch


class _Header(msgspec.Struct, array_like=True):
    index: PackedIndex
    sections: list[tuple[str, int, int]]  # template, bytes of its schema (none: a few rows), bytes of its batch


_HEADER = msgspec.msgpack.Decoder(_Header)


def encode(emitted: EmissionBatch) -> bytes:
    """The payload of a diff record: header length, header, then schema and batch of each template."""
    return b"".join(encode_pieces(emitted))


def encode_pieces(emitted: EmissionBatch) -> list[bytes | memoryview]:
    """What `encode` returns, in pieces: a first result may be large, and need not be copied once more."""
    bodies = [_body(batch) for batch in emitted.edits.values()]
    sections = [
        (template, len(schema), len(body)) for template, (schema, body) in zip(emitted.edits, bodies, strict=True)
    ]
    header = msgspec.msgpack.encode(_Header(pack(emitted.index), sections))
    return [len(header).to_bytes(4, "little") + header, *(memoryview(part) for body in bodies for part in body)]


def _body(edits: pa.RecordBatch) -> tuple[bytes | pa.Buffer, bytes | pa.Buffer]:
    few = encode_few(edits)
    return (edits.schema.serialize(), edits.serialize()) if few is None else (b"", few)


def decode(payload: bytes | memoryview) -> EmissionBatch:
    view = memoryview(payload)
    start = 4 + int.from_bytes(view[:4], "little")
    header = _HEADER.decode(view[4:start])
    edits: dict[str, pa.RecordBatch] = {}
    for template, schema_bytes, body_bytes in header.sections:
        body = start + schema_bytes
        schema = _schema(bytes(view[start:body])) if schema_bytes else None
        start = body + body_bytes
        part = view[body:start]
        edits[template] = decode_few(part) if schema is None else pa.ipc.read_record_batch(pa.py_buffer(part), schema)
    return EmissionBatch(unpack(header.index), edits)


@lru_cache(maxsize=4096)
def _schema(raw: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(raw))
