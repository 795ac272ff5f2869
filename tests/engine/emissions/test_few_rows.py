"""Results of a few rows are written without Arrow's schema, and read as the same edits."""

from __future__ import annotations

import datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from headwater.engine.emissions.block import FewEdits, result_block
from headwater.engine.emissions.codec import decode, encode
from headwater.engine.emissions.edits import edits_of
from headwater.engine.emissions.index import Entry, Index
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.model.time.interval import Interval
from headwater.model.value import Type, Value, to_array

VALUES: dict[Type, Value] = {
    Type.INTEGER: -(1 << 63),
    Type.REAL: float("inf"),
    Type.TEXT: "é\0",
    Type.BLOB: b"\xff\0",
    Type.ANY: "any",
    Type.BOOLEAN: True,
    Type.NUMERIC: Decimal("1.50"),
    Type.DATE: datetime.date(1, 1, 1),
    Type.TIME: datetime.time(23, 59, 59, 999999),
    Type.TIMESTAMP: datetime.datetime(9999, 12, 31, 23, 59, 59),
    Type.TIMESTAMPTZ: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    Type.INTERVAL: Interval(1, 2, 3),
    Type.UUID: UUID(int=7),
}


def emitted(values: dict[Type, Value], count: int) -> EmissionBatch:
    types = tuple(values)
    pool = pa.record_batch(
        [to_array([value, None] * count, type)[:count] for type, value in values.items()],
        [str(n) for n in range(len(types))],
    )
    hashes = np.arange(1 << 60, (1 << 60) + count, dtype=np.uint64)
    block = result_block(7, 1 << 20, hashes, np.arange(count), pool, types)
    return EmissionBatch(Index.of([Entry(7, 1 << 20, 0, "result", "t")]), {"t": edits_of([block])})


@pytest.mark.parametrize("count", [1, 2, 16, 17])
@pytest.mark.parametrize("types", [tuple(VALUES), *((type,) for type in VALUES), ()])
def test_what_is_read_is_what_was_written(types: tuple[Type, ...], count: int) -> None:
    before = emitted({type: VALUES[type] for type in types}, count)
    after = decode(encode(before))
    assert after.edits["t"].schema.equals(before.edits["t"].schema, check_metadata=True)
    assert after.edits["t"].equals(before.edits["t"])


def test_a_row_is_most_of_what_is_written() -> None:
    assert len(encode(emitted({Type.INTEGER: 1, Type.TEXT: "x" * 300}, 1))) < 450


def test_a_diff_is_written_as_arrow() -> None:
    pool = pa.record_batch([to_array([1, 2], Type.INTEGER)], ["0"])
    edits = edits_of([FewEdits([(7, 1 << 20, 2, 8, 9, -1, -1, 0, 1)], pool, (Type.INTEGER,))])
    after = decode(encode(EmissionBatch(Index.of([Entry(7, 1 << 20, 0, "diff", "t")]), {"t": edits})))
    assert after.edits["t"].equals(edits)
