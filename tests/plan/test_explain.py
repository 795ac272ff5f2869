"""EXPLAIN is stable text. HEADWATER_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.plan.explain import explain
from headwater.plan.planner import plan
from tests.sql.test_golden import TABLES
from tests.sql.written import KEYLESS, TABLE

GOLDEN = Path(__file__).parent / "golden" / "explain.txt"
QUERIES = (
    ("SELECT id, r * 2 AS twice FROM t WHERE i = 42 AND s = 'x' AND r > 1 ORDER BY twice DESC LIMIT 10", TABLE),
    ("SELECT * FROM t", TABLE),
    ("SELECT s FROM t WHERE c = 'Ann' LIMIT -1 OFFSET 3", KEYLESS),
)


DERIVED = (
    "SELECT o.id, p.b FROM orders o JOIN pairs p ON p.a = o.id WHERE o.user_id = 42 AND o.total > 1 ORDER BY 2 LIMIT 3",
    "SELECT status, count(*) AS n FROM orders WHERE status = 'x' GROUP BY status HAVING n > 1",
    "SELECT id FROM orders o WHERE id NOT IN (SELECT a FROM pairs) OR EXISTS (SELECT 1 FROM logs l WHERE l.at = o.id)",
    "SELECT DISTINCT d.user_id FROM (SELECT user_id, total FROM orders ORDER BY total DESC LIMIT 5) d",
    "SELECT id, (SELECT b FROM pairs p WHERE p.a = o.id) AS first FROM orders o UNION ALL SELECT a, b FROM pairs",
)


def test_explain_reads_as_before() -> None:
    plain = [f"{sql}\n\n{explain(plan(sql, [table]), table, ['a note of the caller'])}" for sql, table in QUERIES]
    derived = [f"{sql}\n\n{explain(plan(sql, TABLES))}" for sql in DERIVED]
    found = "\n\n".join([*plain, *derived])
    if os.environ.get("HEADWATER_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(found + "\n")
    assert found + "\n" == GOLDEN.read_text()
