"""What the source is asked for windows that could be followed, and were moved: their effective query.

So they show the rows that they would show if they were followed, ties included. What the query reads is learned once
for a template. It moves nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headwater.model.errors import SqlError
from headwater.model.schema import Table
from headwater.pipeline.planning.strategy import asked_values_of
from headwater.plan.planner import Planned, effective_sql
from headwater.plan.requery_by_value import asked_keys
from headwater.plan.requery_whole import Requeried
from headwater.plan.template import Template
from headwater.sources.source import Reads, Source

_CHANGED = "the columns of its tables changed"


class MovedQuestions:
    """`templates` are those that were asked for, as they are followed."""

    def __init__(self, source: Source, tables: Callable[[], Mapping[str, Table]], learned: Callable[[], int]) -> None:
        self._source, self._tables, self._learned = source, tables, learned
        self._reads: dict[str, tuple[int, Reads]] = {}
        self.templates: dict[str, Template] = {}

    def forget(self) -> None:
        """Tables may be others now."""
        self._reads = {}

    def of(self, planned: Planned) -> Requeried:
        template, instance = planned.template, planned.instance
        sql = effective_sql(template, instance)
        learned, reads = self._read(template.id, sql)
        names = tuple(output.name for output in template.outputs)
        if len(reads.columns) != len(names):
            raise SqlError(_CHANGED, sql=sql)
        self.templates[template.id] = template
        asks = asked_values_of(self._source, self._tables(), sql, reads)
        return Requeried(
            template=template.id,
            instance=instance.id,
            sql=sql,
            values=(),
            keywords=(),
            names=names,
            ordered=template.ordered,
            mask=reads.tables,
            why=(planned.moved,),
            learned=learned,
            asks=asks,
            functions=reads.functions,
            only=asked_keys(asks, ()),
            moved=True,
        )

    def again(self, query: Requeried) -> Requeried:
        """What it reads now that views or functions may be others."""
        learned, reads = self._read(query.template, query.sql)
        if len(reads.columns) != len(query.names):
            raise SqlError(_CHANGED, sql=query.sql)
        return replace(query, mask=reads.tables, functions=reads.functions, learned=learned)

    def _read(self, template: str, sql: str) -> tuple[int, Reads]:
        known = self._reads.get(template)
        learned = self._learned()
        if known is None or known[0] != learned:
            known = self._reads[template] = learned, self._source.reads(sql, ())
        return known
