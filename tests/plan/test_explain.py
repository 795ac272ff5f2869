"""EXPLAIN is stable text. HEADWATER_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from tests.sql.written import KEYLESS, TABLE

from headwater.plan.explain import explain
from headwater.plan.planner import plan

GOLDEN = Path(__file__).parent / "golden" / "explain.txt"
QUERIES = (
    ("SELECT id, r * 2 AS twice FROM t WHERE i = 42 AND s = 'x' AND r > 1 ORDER BY twice DESC LIMIT 10", TABLE),
    ("SELECT * FROM t", TABLE),
    ("SELECT s FROM t WHERE c = 'Ann' LIMIT -1 OFFSET 3", KEYLESS),
)


def test_explain_reads_as_before() -> None:
    found = "\n\n".join(
        f"{sql}\n\n{explain(plan(sql, [table]), table, ['a note of the caller'])}" for sql, table in QUERIES
    )
    if os.environ.get("HEADWATER_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(found + "\n")
    assert found + "\n" == GOLDEN.read_text()
