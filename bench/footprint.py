"""`python -m bench.footprint`: the memory of a join in a process of its own, as JSON.

State, in Arrow's bytes: the rows of both tables and of the result. Peak: what the process grew by at most since its
imports, with the rows it was handed and the emitted first result in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from bench.flowing import opened
from bench.traffic import Traffic

_STATUS = Path("/proc/self/status")


def main(sql: str, rows: int, customers: int) -> dict[str, float]:
    pa.set_cpu_count(1)
    before = _bytes("VmRSS")
    traffic = Traffic(rows, customers)
    flowing = opened(sql, traffic)
    peak, state = _bytes("VmHWM") - before, _state(traffic, flowing.first.edits[flowing.planned.template.id])
    flowing.first.edits.clear()
    for _ in range(10):
        flowing.step(traffic.step(10_000, 1_000))
    pa.default_memory_pool().release_unused()
    return {"state": state, "peak": peak, "stepping": _bytes("VmHWM") - before, "rest": _bytes("VmRSS") - before}


def _state(traffic: Traffic, result: pa.RecordBatch) -> float:
    """Of the result only what a row says: a diff has old images and indexes besides."""
    mine = [result.column(n) for n, name in enumerate(result.schema.names) if name.startswith("new.")]
    tables = [batch for batches in traffic.rows().values() for batch in batches]
    return float(sum(each.nbytes for each in (*tables, *mine)))


def _bytes(field: str) -> float:
    """Linux tells; elsewhere the bar is not measured."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
