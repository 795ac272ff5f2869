"""Activation: templates come with the rows they need, and go with what is held for them alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from headwater.engine.dataflow_state import ActiveTemplate, DataflowState, Rows
from headwater.engine.emissions.index import Ending
from headwater.engine.expressions.kernels import WIDE
from headwater.engine.held_rows import arrange, hold, hold_by_key, index_key, show, take_over
from headwater.engine.operators.derived import Derived
from headwater.engine.ranges.range_index import RangeIndex
from headwater.engine.rows.conform import TableSchema
from headwater.engine.rows.work import Work
from headwater.engine.scanned_tables import hold_scanned, is_held, rows_of_tables, sweep, take_over_scanned
from headwater.engine.state.shared_contents import share_contents
from headwater.engine.state.table.scan_index import columns_read
from headwater.engine.state.table.table_store import narrowed
from headwater.engine.subscriptions import end, hydrate, unsubscribe
from headwater.engine.windows.failing_groups import FailingGroups
from headwater.engine.windows.instance_index import InstanceIndex
from headwater.engine.windows.template_program import Program
from headwater.engine.windows.window import Window
from headwater.model.schema import Table
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.one_table import writer_of
from headwater.plan.planner import template_from_sql
from headwater.plan.template import Template, key_columns


def define(state: DataflowState, table: Table) -> None:
    """A new table, or its new schema: columns appended, or turned ANY. Results do not change."""
    known = state.schemas.get(table.name)
    state.schemas[table.name] = TableSchema.of(table)
    if known is None or known.table == table:
        return
    if (store := state.stores.get(table.name)) is not None:
        whole = store.table.names == known.table.names
        store.define(table if whole else narrowed(table, store.table.names))
    for active in state.over(table.name):
        _rebind(state, active, table)


def reshaped(state: DataflowState, table: Table) -> list[str]:
    """The relations that cannot follow a table's new schema: a column they read has another type."""
    known = state.schemas.get(table.name)
    if known is None or known.table.columns == table.columns[: len(known.table.columns)]:
        return []
    return sorted(state.relations_over(table.name))


def _rebind(state: DataflowState, active: ActiveTemplate, table: Table) -> None:
    """Sort keys may have become longer; the order of the rows is the same."""
    active.template = template_from_sql(active.template.sql, narrow(table, active.widths))
    active.program = Program(active.template, table)
    for group in active.instances.groups.values():
        group.ranked = None
        hydrate(state, active, group)


def narrow(table: Table, widths: Mapping[str, int]) -> Table:
    """The table as it was when a template was bound to it."""
    return replace(table, columns=table.columns[: widths.get(table.name)])


def needs_rows(state: DataflowState, template: Template) -> bool:
    """False when the rows are here already, by whatever key, or no instance of the template can live here."""
    if not state.owns(template):
        return False
    if template.relation is not None:
        held = all(is_held(state, *each) for each in columns_read(template.relation).items())
        return template.table not in state.derived and not (state.whole and held)
    store = state.stores.get(template.table)
    if store is None or store.table.names != state.schemas[template.table].table.names:
        return True
    return not (store.whole or state.is_by_key(template) or index_key(store.table, template) in store.indexes)


def compile_ahead(template: Template, tables: Mapping[str, Table]) -> None:
    """Compiles the expressions of a wide template: a cell of this process that activates it then finds them. By any
    thread; tables have the columns that the cell will know."""
    if len(template.outputs) < WIDE:
        return
    if template.relation is None:
        Program(template, tables[template.table])
    else:
        Program(template, Derived(template.table, template.relation, tables, Work()).table)


def activate(
    state: DataflowState,
    template: Template,
    rows: Rows | None,
    widths: Mapping[str, int] | None = None,
    order: JoinOrder | None = None,
) -> None:
    """`rows` are those of each table it reads, as they are now; None where `needs_rows` said no. `order` is the one in
    which the joins of its relation run, unless that is here already.

    A batch with a further column, `diff`, adds and removes rows: changes made since the others were read.
    """
    if needs_rows(state, template) and rows is None:
        raise ValueError(f"activating {template.id} needs the rows of {', '.join(sorted(template.tables))}")
    if template.relation is not None and state.owns(template) and template.table not in state.derived:
        hold(state, template, _derive(state, template, rows, order))
    elif template.relation is None and needs_rows(state, template) and rows is not None:
        hold(state, template, rows[template.table])
    elif template.relation is None:
        show(state, template)
    if state.owns(template):
        arrange(state, template)
    _serve(state, template, widths)


def activate_by_key(state: DataflowState, template: Template) -> None:
    """As `activate`, of a table that is held by key: its rows come later, key by key."""
    hold_by_key(state, template)
    arrange(state, template)
    _serve(state, template, None)


def adopt(state: DataflowState, template: Template, other: DataflowState) -> None:
    """As `activate`, where it needs rows: takes over those of `other`, which is at the same transaction."""
    if template.relation is not None:
        take_over_scanned(state, other.derived[template.table], other.stores)
        share(state, other.derived[template.table])
    take_over(state, template, other.stores[template.table])
    arrange(state, template)
    _serve(state, template, None)


def _serve(state: DataflowState, template: Template, widths: Mapping[str, int] | None) -> None:
    """From now on the template is active."""
    table = _table_of(state, template)
    if template.id not in state.active:
        wide = _widths(state, template) if widths is None else widths
        derived = state.derived.get(template.table)
        instances = InstanceIndex(RangeIndex(template, state.counters) if template.selectors else None)
        affected = FailingGroups(template, table, [] if derived is None else derived.failed)
        active = ActiveTemplate(template, Program(template, table), wide, instances, affected)
        state.active[template.id] = active
        state.served.setdefault(active.place, []).append(active)


def _derive(
    state: DataflowState, template: Template, rows: Rows | None, order: JoinOrder | None
) -> Iterable[pa.RecordBatch]:
    """The rows of a relation that is new here."""
    derived = new_derived(state, template, order)
    assert template.relation is not None
    read = rows_of_tables(state, template.relation, rows)
    loaded = derived.load(read)
    hold_scanned(state, derived, read)
    share(state, derived)
    return loaded


def share(state: DataflowState, derived: Derived) -> None:
    """Takes a relation that is at the same transaction as the others here; rows that two of them hold are held once."""
    others = (bag for other in state.derived.values() for bag in other.bags())
    share_contents(derived.bags(), others)
    define(state, derived.table)
    state.derived[derived.table.name] = derived


def _widths(state: DataflowState, template: Template) -> dict[str, int]:
    """How many columns its base tables have now, where its text counts on these."""
    if writer_of(template) is not None:
        return {}
    return {name: len(state.schemas[name].table.columns) for name in template.tables}


def new_derived(state: DataflowState, template: Template, order: JoinOrder | None = None) -> Derived:
    assert template.relation is not None
    return Derived(
        template.table, template.relation, state.tables, state.counters, state.limits, order=order, stored=state.whole
    )


def _table_of(state: DataflowState, template: Template) -> Table:
    """A cell that owns no instance of a template over a relation has nothing of the relation but its columns."""
    if template.relation is not None and template.table not in state.schemas:
        define(state, new_derived(state, template).table)
    return state.schemas[template.table].table


def release(state: DataflowState, name: str) -> list[int]:
    """A template goes, with what is held for it alone; the instances it still had end without an emission."""
    active = state.active.get(name)
    if active is None:
        sweep(state)
        return []
    left = [window.instance.id for window in active.instances.windows()]
    for instance in left:
        unsubscribe(state, instance)
    _retire(state, active)
    _free(state, active.template)
    return left


def expel(state: DataflowState, name: str, tx: int, reason: str) -> None:
    """A table, a relation or one template ends here; other templates over the same rows go on."""
    active = state.active.get(name)
    if active is None:  # whoever counts on the rows of its tables has not heard of this yet: these stay
        _drop_all(state, name, tx, reason)
        return
    for window in active.instances.windows():
        end(state, window, tx, reason)
    _retire(state, active)


def drop(state: DataflowState, table: str, tx: int, reason: str, how: Ending = "closed") -> list[int]:
    """The instances that end with their table, or with a relation over it; the subscribers of each are told why."""
    ended = _drop_all(state, table, tx, reason, how)
    sweep(state)
    return ended


def _drop_all(state: DataflowState, table: str, tx: int, reason: str, how: Ending = "closed") -> list[int]:
    names = {table, *state.relations_over(table)}
    return [window.instance.id for name in names for window in _drop(state, name, tx, reason, how)]


def _drop(state: DataflowState, table: str, tx: int, reason: str, how: Ending) -> list[Window]:
    ended = [window for window in state.windows.values() if state.active_of(window).template.table == table]
    for window in ended:
        end(state, window, tx, reason, how)
    state.active = {id: active for id, active in state.active.items() if active.template.table != table}
    state.served = {place: each for place, each in state.served.items() if place[0] != table}
    state.arrangements = {place: each for place, each in state.arrangements.items() if place[0] != table}
    state.stores.pop(table, None)
    state.multisets.pop(table, None)
    state.schemas.pop(table, None)
    state.derived.pop(table, None)
    state.by_key = {place: keys for place, keys in state.by_key.items() if place[0] != table}
    return ended


def _retire(state: DataflowState, active: ActiveTemplate) -> None:
    state.served[active.place] = [one for one in state.served[active.place] if one is not active]
    del state.active[active.template.id]


def _free(state: DataflowState, gone: Template) -> None:
    """Frees the rows that only this template needed. A table itself stays known."""
    over = [active.template for active in state.over(gone.table)]
    needed = {template.keys for template in over if state.owns(template)}
    needed |= {key_columns(template) for template in over if state.is_by_key(template)}
    for place in [each for each in state.arrangements if each[0] == gone.table and each[1] not in needed]:
        del state.arrangements[place]
        state.by_key.pop(place, None)
    if not needed:
        state.derived.pop(gone.table, None)
    if gone.relation is not None and not over:
        state.schemas.pop(gone.table, None)
    sweep(state)
