"""EXPLAIN without a pipeline: the schema is read, the query planned, nothing is captured."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.value import Value
from headwater.plan.explain import explain
from headwater.plan.planner import plan
from headwater.sources import open_source


def explain_at(url: str, sql: str, params: Sequence[Value] = ()) -> str:
    source = open_source(url)
    try:
        tables = source.tables()
        planned = plan(sql, tables, params)
        table = next((table for table in tables if table.name == planned.template.table), None)
        return explain(planned, table, source.notes())
    finally:
        source.close()
