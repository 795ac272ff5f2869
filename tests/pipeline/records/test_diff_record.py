"""The record of a diff partition: written in pieces, and the same bytes as in one."""

from __future__ import annotations

import msgspec
import pytest

from headwater.engine.emissions import codec
from headwater.engine.emissions.index import Entry, Index
from headwater.engine.emissions.outbox import EmissionBatch
from headwater.pipeline.records.diff_record import decode_report, encode_report


@pytest.mark.parametrize("reason_bytes", [0, 1, 100, 200, 1000, 65_300, 65_500, 70_000])
def test_a_report_in_pieces_is_a_report(reason_bytes: int) -> None:
    """Of every length of what msgpack writes before bytes."""
    index = Index.of([Entry(7, 8, 0, "error", "t", "x" * reason_bytes)] if reason_bytes else [])
    emitted = EmissionBatch(index, {})
    payload = b"".join(encode_report((3, 5), 9, 0, 1, 2, {8: 9}, emitted))
    report = decode_report(payload)
    assert (report.start, report.to, report.position, report.positions) == (3, 5, 9, {8: 9})
    assert bytes(report.emitted) == (codec.encode(emitted) if reason_bytes else b"")
    assert msgspec.msgpack.encode(report) == payload
