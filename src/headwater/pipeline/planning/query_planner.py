"""Plans a query with the tables as they are now; for a query that the source answers, also what to ask it.

It starts nothing: a plan becomes live when a client subscribes to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from headwater.model.errors import SourceError, SqlError
from headwater.model.schema import Table
from headwater.pipeline.activation.activator import Outdated, still_fitting
from headwater.pipeline.capture import Capture
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.planning.current_strategies import CurrentStrategies
from headwater.pipeline.planning.moved_questions import MovedQuestions
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.planning.plan_cache import PlanCache
from headwater.pipeline.planning.requery_templates import RequeryTemplates
from headwater.pipeline.planning.strategy import (
    Notes,
    explain_with,
    is_same,
    plan_followed,
    plan_with,
    refuse_volatile_of,
    relearned,
)
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.planner import Planned, effective_sql
from headwater.plan.requery_whole import ASKED, Requeried, planned_requery
from headwater.plan.template import Template
from headwater.sources.source import Source
from headwater.sql.syntax.parameters import Given

_log = logging.getLogger("headwater.pipeline")


class QueryPlanner:
    """`requeried` are the queries that the source answers, by instance. `redefinitions` counts those of views and
    functions that were told so far."""

    def __init__(
        self,
        source: Source,
        catalog: Catalog,
        capture: Capture,
        redefinitions: Callable[[], int],
        options: PlanOptions,
        strategies: CurrentStrategies,
    ) -> None:
        self._source, self._catalog, self._capture, self._options = source, catalog, capture, options
        self._redefinitions = redefinitions
        self._declared: dict[str, Table] = {}
        self._plans = PlanCache(lambda sql, params: plan_followed(source, self._catalog.tables, sql, params))
        self._templates, self._strategies = RequeryTemplates(), strategies
        self.moved = MovedQuestions(source, self.tables, redefinitions)
        self.requeried: dict[int, Requeried] = {}

    def forget_plans(self) -> None:
        """Another table is captured: other texts may be planned."""
        self._plans.forget()
        self._templates.forget()
        self.moved.forget()

    def forget_tables(self) -> None:
        """Tables may be other than the source declared them."""
        self._declared = {}
        self.forget_plans()

    def tables(self) -> dict[str, Table]:
        """As they are captured; those that are not, as the source declared them when it was last asked."""
        return {**self._declared, **self._catalog.tables}

    def declared(self, name: str) -> Table | None:
        """A table of the source, which is asked where it is not known."""
        if name not in self.tables():
            self._declare()
        return self.tables().get(name)

    def _declare(self) -> None:
        self._declared = {table.name: table for table in self._source.tables()}

    def plan(self, sql: str, params: Given = ()) -> Planned:
        """With the text it was made from, so that it can be planned again."""
        planned = self._planned(sql, params)
        _log.debug("planned as %s, template %s: %s", planned.strategy, planned.template.id, sql)
        return replace(planned, text=sql, given=params)

    def has_plan(self, sql: str, params: Given) -> bool:
        """The query was planned before: the source need not be asked for it."""
        return self._plans.knows(sql, params) or self._templates.knows(sql, params)

    def replanned(self, planned: Planned) -> Planned:
        """The same plan where it fits the tables we capture now, else a new one from the query's text."""
        template = planned.template
        if planned.strategy not in ASKED and (
            not template.tables <= self._catalog.tables.keys()
            or still_fitting(template, self._catalog.tables) is not None
        ):
            return planned
        return self.plan(planned.text, planned.given)

    def _planned(self, sql: str, params: Given) -> Planned:
        """Binds against the tables we capture; what these do not answer, against those the source has now."""
        redefinitions = self._redefinitions()
        self._catch_up()
        another, known = self._another(sql, params), self._templates.known
        if another is not None:
            self.requeried[another.instance] = another
            return planned_requery(another)
        if self._options.strategy not in ASKED:
            try:
                return self._strategies.at(self._plans.plan(sql, params))
            except SqlError:
                pass
        self._declare()
        planned, query = plan_with(self._source, self.tables(), sql, params, self._options.strategy)
        if query is not None:
            learned = self.requeried[query.instance] = replace(query, learned=redefinitions)
            self._templates.learn(known, learned, params)
        return self._strategies.at(planned)

    def _another(self, sql: str, params: Given) -> Requeried | None:
        """An instance of a template that the source was asked about before."""
        known = self._templates.instance(sql, params)
        if known is not None:
            refuse_volatile_of(self._source, sql, params, known.functions)
        return known

    def _catch_up(self) -> None:
        """A query that comes after a change of the schema is planned and begun with the tables as they are now."""
        try:
            position = self._source.schema_position()
        except SourceError:
            return  # what is live goes on with the rows of before, and says so
        if position > self._capture.position:
            self._capture.reached(position)

    def explain(self, sql: str, params: Given, analyze: bool, notes: Notes) -> str:
        self._declare()
        live = self._strategies.at, lambda template: (*notes(template), *self._replanned(template)), self._running
        return explain_with(self._source, self.tables(), sql, params, analyze, self._options, *live)

    def _running(self, template: Template) -> JoinOrder | None:
        plan = self._catalog.plans.get(template.table)
        return None if plan is None else plan.order

    def _replanned(self, template: Template) -> Iterator[str]:
        plan = self._catalog.plans.get(template.table)
        if plan is not None and plan.replans:
            times = "once" if plan.replans == 1 else f"{plan.replans} times"
            yield f"the order of joins was changed {times} while the query was live: {plan.reason}"

    def question(self, planned: Planned) -> Requeried:
        """What the source is asked. It went with its window, where that ended since the query was planned."""
        known = self.requeried.get(planned.instance.id)
        if known is None and planned.moved:
            known = self.requeried[planned.instance.id] = self.moved.of(planned)
        if known is None:
            self.plan(planned.text, planned.given)
            known = self.requeried.get(planned.instance.id)
        if known is None:
            raise Outdated(
                "the tables of the query changed after it was planned",
                hint="subscribe again",
            )
        return known

    def relearned(self, query: Requeried) -> Requeried:
        """What a query that the source answers reads now that views or functions may be others."""
        if query.moved:
            return self.moved.again(query)
        redefinitions = self._redefinitions()
        another, known = self._another(query.sql, query.params), self._templates.known
        if another is not None and another.learned == redefinitions and is_same(another, query):
            return another
        self._declare()
        learned = replace(relearned(self._source, self.tables(), query), learned=redefinitions)
        self._templates.learn(known, learned, query.params)
        return learned

    def effective(self, planned: Planned) -> str:
        """What the source is asked for to see whether we are right."""
        asked = self.requeried.get(planned.instance.id)
        return effective_sql(planned.template, planned.instance) if asked is None else asked.effective
