"""A relation whose joins run in another order from a place in the log on, as the log says.

Its operators are made anew, of rows that are here or were read; its rows, its windows and what they ask for stay as
they are. Nothing is emitted. It never decides on an order.
"""

from __future__ import annotations

import logging

from headwater.engine.activation import new_derived, share
from headwater.engine.dataflow_state import DataflowState, Rows
from headwater.engine.operators.demand import DemandChange
from headwater.engine.operators.derived import Derived
from headwater.engine.operators.group.group import FIRST_TX
from headwater.engine.operators.join.estimated_joins import Misestimate
from headwater.engine.scanned_tables import hold_scanned, is_held, rows_of_tables, sweep, take_over_scanned
from headwater.engine.state.table.scan_index import columns_read
from headwater.model.errors import OverBudget
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.template import Template

_log = logging.getLogger("headwater.engine")


def lacks_rows(state: DataflowState, template: Template) -> bool:
    """Whether operators cannot be made anew of what is here."""
    if template.relation is None or template.table not in state.derived:
        return False
    return not (state.whole and all(is_held(state, *each) for each in columns_read(template.relation).items()))


def replan(state: DataflowState, template: Template, order: JoinOrder, rows: Rows | None) -> None:
    """`rows` as for an activation. Where it is too much work to begin in the new order, the old one stays: that is
    counted, so every replay comes to the same."""
    if template.relation is None or template.table not in state.derived:
        return
    derived, read = new_derived(state, template, order), rows_of_tables(state, template.relation, rows)
    try:
        derived.load(read)
        hold_scanned(state, derived, read)
        _replace(state, template.table, derived)
    except OverBudget as error:
        _log.warning("the joins of %s stay in their order: %s", template.table, error)
        sweep(state)


def adopt(state: DataflowState, template: Template, other: DataflowState) -> None:
    """As `replan`, of operators that were made elsewhere and are at the same transaction."""
    if template.table not in state.derived:
        return
    derived = other.derived[template.table]
    take_over_scanned(state, derived, other.stores)
    try:
        _replace(state, template.table, derived)
    except OverBudget as error:
        _log.warning("the joins of %s stay in their order: %s", template.table, error)
        sweep(state)


def _replace(state: DataflowState, relation: str, derived: Derived) -> None:
    """What comes with the subscribers is here already: the relation's rows are in its store."""
    windows = [window for active in state.over(relation) for window in active.instances.windows()]
    if derived.on_demand and windows:
        derived.demand(*(DemandChange(window.instance.values, FIRST_TX, 1) for window in windows))
    derived.failures = []
    del state.derived[relation]
    share(state, derived)
    sweep(state)


def misestimate(state: DataflowState, relation: str) -> Misestimate | None:
    """The join of a relation that was estimated worst; none of a relation that nobody asks for."""
    derived = state.derived.get(relation)
    asked = sum(len(active.instances.groups) for active in state.over(relation))
    return derived.misestimate(asked) if derived is not None and asked else None
