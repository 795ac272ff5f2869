"""EXPLAIN without a pipeline: the schema is read, the query planned, nothing is captured."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.value import Value
from headwater.pipeline.planning.strategy import explain_with
from headwater.sources import open_source


def explain_at(url: str, sql: str, params: Sequence[Value] = (), analyze: bool = False) -> str:
    source = open_source(url)
    try:
        return explain_with(source, {table.name: table for table in source.tables()}, sql, params, analyze)
    finally:
        source.close()
