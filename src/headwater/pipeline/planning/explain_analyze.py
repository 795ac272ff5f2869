"""EXPLAIN ANALYZE: runs the query once in our own engine, in memory, over the rows that the source has now.

It reads every row of the tables of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from headwater.engine.dataflow import Dataflow
from headwater.engine.explain_analyze import Actual, measured
from headwater.model.budget import Budget
from headwater.model.limits import DEFAULT
from headwater.model.schema import Table
from headwater.model.value import to_array
from headwater.pipeline.activation.row_statistics import row_profiler
from headwater.plan.explain import Actuals
from headwater.plan.join_order.choice import chosen
from headwater.plan.join_order.order import JoinOrder, reordered
from headwater.plan.join_order.profile import Profiler
from headwater.plan.planner import Planned
from headwater.sources.source import Source
from headwater.sql.ir.relation import Relation

_PAIR_BYTES = 128
Choose = Callable[[Relation, Profiler], JoinOrder | None]

_MODEST = replace(
    DEFAULT, work_pairs_max=DEFAULT.explain_pairs_max, work_bytes_max=DEFAULT.explain_pairs_max * _PAIR_BYTES
)


def measure(
    source: Source, tables: Mapping[str, Table], planned: Planned, choose: Choose = chosen
) -> tuple[Actuals, JoinOrder | None]:
    """With the order that joins ran in, which is chosen by the rows. It runs in the server, so it may use less than a
    query that is set up in a process of its own."""
    template = planned.template
    used = {name: tables[name] for name in sorted(template.tables)}
    rows = {name: _rows(source, table) for name, table in used.items()}
    if template.relation is None:
        return Actuals([_counted(rows[template.table].num_rows, "row")], _whole(used, rows, planned, None)), None
    read = ((used[name], batch.num_rows, [batch]) for name, batch in rows.items())
    order = choose(template.relation, row_profiler(read))
    physical = reordered(template.relation, order)
    whole = {name: [batch] for name, batch in rows.items()}
    found = measured(physical, used, whole, Budget.of(_MODEST), planned.instance.values)
    return Actuals([_beside(one) for one in found], _whole(used, rows, planned, order)), order


def _whole(
    tables: Mapping[str, Table], rows: Mapping[str, pa.RecordBatch], planned: Planned, order: JoinOrder | None
) -> list[str]:
    """As a cell would: activate, subscribe, emit the first result."""
    flow = Dataflow(limits=_MODEST)
    for table in tables.values():
        flow.define(table)
    flow.activate(planned.template, {name: [batch] for name, batch in rows.items()}, order=order)
    flow.subscribe(planned.instance, 1)
    shown = sum(batch.num_rows for batch in flow.take().edits.values())
    work = flow.counters
    return [
        f"result {_counted(shown, 'row')}",
        f"work to hydrate: gathered {work.gathered:,}, emitted {work.emitted:,}, rewrote {work.rewritten:,}",
    ]


def _rows(source: Source, table: Table) -> pa.RecordBatch:
    answer = source.query(source.select_all(table))
    columns = list(zip(*answer.rows, strict=True)) or [()] * len(table.columns)
    arrays = [to_array(values, column.type) for values, column in zip(columns, table.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def _beside(actual: Actual) -> str:
    parts = [_counted(actual.rows, "row")]
    if actual.pairs:
        parts.append(f"of {_counted(actual.pairs, 'pair')}")
    if actual.kept:
        parts.append(f"keeps {actual.kept:,}")
    if actual.gathered:
        parts.append(f"gathered {actual.gathered:,}")
    return ", ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
