"""Chooses the strategy of a query: incremental where possible, else selective, else requery; or the forced one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from headwater.dialects.registry import DIALECTS
from headwater.engine.requeried.keyed_rows import keys_of
from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.pipeline.planning.explain_analyze import measure
from headwater.pipeline.planning.options import PlanOptions
from headwater.plan.explain import explain
from headwater.plan.join_order.cluster import clusters_of
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.join_order.profile import profiler
from headwater.plan.planner import Planned, plan
from headwater.plan.requery_by_key import Selection, selection_of
from headwater.plan.requery_by_value import AskedColumn, asked_columns
from headwater.plan.requery_whole import ASKED, Requeried, explain_requery, planned_requery, requeried
from headwater.plan.strategy import INCREMENTAL, REQUERY, SELECTIVE
from headwater.plan.template import Template
from headwater.plan.volatile_functions import refuse_volatile
from headwater.sources.source import Reads, Source
from headwater.sql.outline.tokens import NoOutline
from headwater.sql.syntax.parameters import Given

Notes = Callable[[Template], Iterable[str]]  # of a template, for EXPLAIN
_FORCED = "strategy {} is forced"
_NOT_INCREMENTAL = "not incremental: "
_CHOSEN = PlanOptions()
_log = logging.getLogger("headwater.plan")


def plan_with(
    source: Source, tables: Mapping[str, Table], sql: str, params: Given, forced: str | None = None
) -> tuple[Planned, Requeried | None]:
    """What we cannot keep current ourselves, the source is asked again for. A forced strategy that cannot serve the
    query refuses it, with the reason."""
    if forced == INCREMENTAL:
        return _plan_incremental(source, tables, sql, params), None
    if forced is not None:
        return _asked(source, tables, sql, params, source.reads(sql, params), _FORCED.format(forced), forced)
    if source.prepares_first:
        return _plan_read(source, tables, sql, params)
    try:
        return plan(sql, dict(tables), params), None
    except SqlError as refusal:
        return _asked(source, tables, sql, params, _reads(source, sql, params, refusal), refusal.message)


def _plan_incremental(source: Source, tables: Mapping[str, Table], sql: str, params: Given) -> Planned:
    try:
        return plan_followed(source, tables, sql, params)
    except UnsupportedQuery as refusal:
        why = refusal.message.removeprefix(_NOT_INCREMENTAL)
        raise _refused(INCREMENTAL, why, sql) from None


def _refused(forced: str, why: str, sql: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"the query cannot be {forced}, which is forced: {why}",
        sql=sql,
        hint="open the database without `strategy`: the best one that can serve the query is then chosen",
    )


def plan_followed(source: Source, tables: Mapping[str, Table], sql: str, params: Given) -> Planned:
    """A plan of our own, or the refusal that says why there is none."""
    if not source.prepares_first:
        return plan(sql, dict(tables), params)
    planned, query = _plan_read(source, tables, sql, params)
    if query is not None:
        raise UnsupportedQuery(query.why[0], sql=sql)
    return planned


def _plan_read(
    source: Source, tables: Mapping[str, Table], sql: str, params: Given
) -> tuple[Planned, Requeried | None]:
    """The source reads the query first. Ours must come to the same tables and names, or it has read something else."""
    reads = source.reads(sql, params)
    try:
        planned = plan(sql, {name: tables[name] for name in reads.tables if name in tables}, params)
    except SqlError as refusal:
        return _asked(source, tables, sql, params, reads, refusal.message)
    names = tuple(output.name for output in planned.template.outputs)
    if names != reads.columns or planned.template.tables != frozenset(reads.tables):
        return _asked(source, tables, sql, params, reads, "Headwater reads the query differently than PostgreSQL")
    return planned, None


def relearned(source: Source, tables: Mapping[str, Table], query: Requeried) -> Requeried:
    """What a query that the source answers reads now; `SqlError` where that makes another query of it."""
    reads = source.reads(query.sql, query.params)
    if reads.columns != query.names:
        raise SqlError("a view or function in the query now returns other columns: subscribe again", sql=query.sql)
    if query.selection is None:
        refuse_volatile_of(source, query.sql, query.params, reads.functions)
        asks = asked_values_of(source, tables, query.sql, reads)
        return requeried(
            query.sql, query.params, reads.columns, reads.tables, query.why, asks=asks, functions=reads.functions
        )
    _, found = _asked(source, tables, query.sql, query.params, reads, query.why[0].removeprefix(_NOT_INCREMENTAL))
    if not is_same(found, query):
        raise SqlError("a view or function in the query now reads other tables or keys: subscribe again", sql=query.sql)
    return found


def is_same(one: Requeried, other: Requeried) -> bool:
    """Whether they have the same columns, and rows of the same keys."""
    keys = [query.selection and keys_of(query.selection) for query in (one, other)]
    return one.names == other.names and keys[0] == keys[1]


def _asked(
    source: Source,
    tables: Mapping[str, Table],
    sql: str,
    params: Given,
    reads: Reads,
    why: str,
    forced: str | None = None,
) -> tuple[Planned, Requeried]:
    """By the keys of its rows where that will do, else whole."""
    reason, selection, mask = [f"{_NOT_INCREMENTAL}{why}"], None, reads.tables
    if forced != REQUERY:
        try:
            selection, mask = _selected(source, tables, sql, params, reads)
        except NoOutline as other:
            if forced == SELECTIVE:
                raise _refused(SELECTIVE, str(other), sql) from None
            reason.append(f"not selective: {other}")
    asks = asked_values_of(source, tables, sql, reads)
    query = requeried(sql, params, reads.columns, mask, tuple(reason), selection, asks, reads.functions)
    refuse_volatile_of(source, sql, params, reads.functions)
    planned = planned_requery(query)
    _log.debug("%s: %s; %s", sql, planned.strategy, "; ".join(query.why))
    return planned, query


def asked_values_of(source: Source, tables: Mapping[str, Table], sql: str, reads: Reads) -> tuple[AskedColumn, ...]:
    """The columns whose values decide which changes concern an instance."""
    if reads.sees_through:
        return ()
    read = {name: table for name, table in tables.items() if name in reads.tables}
    return asked_columns(sql, read, source.dialect, reads.once)


def refuse_volatile_of(source: Source, sql: str, params: Given, functions: frozenset[str]) -> None:
    refuse_volatile(sql, params, functions, DIALECTS[source.dialect].requery)


def _selected(
    source: Source, tables: Mapping[str, Table], sql: str, params: Given, reads: Reads
) -> tuple[Selection, Mapping[str, frozenset[str]]]:
    """With the columns that count. The source reads what we made of the query, and must find the same tables in it."""
    if not reads.row_by_row:
        raise NoOutline("it calls a function over several rows, or reads a view")
    read = {name: table for name, table in tables.items() if name in reads.tables}
    selection = selection_of(sql, read, source.dialect, reads.columns)
    try:
        found = source.reads(selection.whole, params)
    except SqlError as error:
        raise NoOutline(f"with its keys, {error.message}") from None
    if found.columns != (*reads.columns, *selection.names) or found.tables.keys() != reads.tables.keys():
        raise NoOutline("the database reads the query differently than Headwater")
    DIALECTS[source.dialect].requery.refuse_unordered([one.place for one in selection.order], found.typed)
    return selection, found.tables


def _reads(source: Source, sql: str, params: Given, refusal: SqlError) -> Reads:
    """What the source prepares is right, whether our grammar knows it or not. Of what it refuses too, our own words say
    more."""
    if isinstance(refusal, UnsupportedQuery):
        return source.reads(sql, params)
    try:
        return source.reads(sql, params)
    except UnsupportedQuery:
        raise
    except SqlError:
        raise refusal from None


def explain_with(
    source: Source,
    tables: Mapping[str, Table],
    sql: str,
    params: Given,
    analyze: bool = False,
    options: PlanOptions = _CHOSEN,
    at: Callable[[Planned], Planned] = lambda planned: planned,
    notes: Notes = lambda template: (),
    running: Callable[[Template], JoinOrder | None] = lambda template: None,
) -> str:
    """With `analyze` the query is run once, and what that took stands beside each operator. `at` tells which strategy
    it has now, where it is live, and `running` the order of its joins. `notes` are more of them."""
    planned, _ = plan_with(source, tables, sql, params, options.strategy)
    if planned.strategy in ASKED:
        return explain_requery(planned, source.notes())
    planned, actuals, order = at(planned), None, running(planned.template)
    if analyze:
        live = order
        actuals, order = measure(source, tables, planned, options.order if live is None else lambda *_: live)
    elif order is None:
        order = _expected_order(source, planned.template, options)
    every = [*notes(planned.template), *source.notes()]
    return explain(planned, tables.get(planned.template.table), every, actuals, order)


def _expected_order(source: Source, template: Template, options: PlanOptions) -> JoinOrder | None:
    """By what the database knows of its tables: when the query goes live, the rows that are read decide."""
    if template.relation is None or not any(clusters_of(template.relation)):
        return None
    return options.order(template.relation, profiler(source.statistics(sorted(template.tables))))
