"""From SQL to a plan with any source: ours where we can keep the query current, else the origin's answers."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Table
from headwater.plan.explain import explain
from headwater.plan.planner import Planned, plan
from headwater.plan.wholistic import WHOLISTIC, Requeried, explain_requery, planned_requery, requeried
from headwater.sources.source import Source
from headwater.sql.params import Given


def plan_with(source: Source, tables: Mapping[str, Table], sql: str, params: Given) -> tuple[Planned, Requeried | None]:
    """What we cannot keep current ourselves, the origin is asked again for."""
    try:
        return plan(sql, dict(tables), params), None
    except UnsupportedQuery as refusal:
        reads = source.reads(sql, params)
        query = requeried(sql, params, reads.columns, reads.tables, reads.functions, refusal.message)
        return planned_requery(query), query


def explain_with(source: Source, tables: Mapping[str, Table], sql: str, params: Given) -> str:
    planned, _ = plan_with(source, tables, sql, params)
    if planned.strategy == WHOLISTIC:
        return explain_requery(planned, source.notes())
    return explain(planned, tables.get(planned.template.table), source.notes())
