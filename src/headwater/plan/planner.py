"""From a bound query to its template and instance, and back from the template's text. Never touches data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from headwater.dialects.bind import bind, bind_parsed
from headwater.dialects.registry import Tables, dialect_of
from headwater.model.schema import Table
from headwater.plan.derived import OverRelation, filled, marks_of, unmarked
from headwater.plan.fingerprint import instance_id
from headwater.plan.lift import Lifted, lift
from headwater.plan.one_table import OneTable, effective_select, one_table, writer_of
from headwater.plan.template import Instance, Template
from headwater.sql.ir.query import Query
from headwater.sql.syntax.parameters import Given
from headwater.sql.syntax.parse import parse

_LONG_SQL, _LONG_MAX = 4 << 10, 64
_LONG: dict[str, tuple[dict[str, Table], Template]] = {}  # long texts bound before, with the tables they were bound to


@dataclass(frozen=True, slots=True)
class Planned:
    """`text` and `given` are the query as its user wrote it: it may have to be planned again. `moved` says why its
    windows have another strategy than they were planned for, where they do."""

    template: Template
    instance: Instance
    strategy: str = "incremental"
    notes: tuple[str, ...] = ()
    text: str = field(default="", compare=False)
    given: Given = field(default=(), compare=False)
    moved: str = field(default="", compare=False)


def plan(query: Query | str, tables: Tables, params: Given = ()) -> Planned:
    """The template a query belongs to, and the constants that make it this query."""
    bound = bind(query, tables, params) if isinstance(query, str) else query
    form = _form(bound, tables)
    lifted = lift(form.liftable)
    if bound.empty is not None and lifted.rest:  # asked for a value that no row can have, or for two
        bound = bind(bound.sql, tables, params, lift_scalars=False)
        form = _form(bound, tables)
        lifted = lift(form.liftable)
    template = form.template(lifted.asked, lifted.rest)
    if len(template.sql) >= _LONG_SQL:
        _note(template.sql, template, _every(tables))
    return _planned(template, lifted, bound, form.notes())


def _form(bound: Query, tables: Tables) -> OneTable | OverRelation:
    return one_table(bound, _every(tables)) or OverRelation(bound)


def _planned(template: Template, lifted: Lifted, bound: Query, notes: Iterable[str]) -> Planned:
    id = instance_id(template.id, lifted.values, bound.limit, bound.offset)
    instance = Instance(id, template.id, lifted.values, bound.limit, bound.offset)
    return Planned(template, instance, notes=tuple(notes))


def _every(tables: Tables) -> Sequence[Table]:
    return tables if isinstance(tables, Sequence) else list(tables.values())


def template_from_sql(template_sql: str, tables: Table | Tables) -> Template:
    """Bind a template's canonical text again, perhaps against newer versions of its tables. A long one was perhaps
    bound just now: by who planned it, or by a cell beside."""
    every = [tables] if isinstance(tables, Table) else _every(tables)
    if len(template_sql) < _LONG_SQL:
        return _bound_again(template_sql, every)
    given, known = _by_name(every), _LONG.get(template_sql)
    if known is not None and all(given.get(name) == table for name, table in known[0].items()):
        return known[1]
    bound = _bound_again(template_sql, every)
    _note(template_sql, bound, every)
    return bound


def _note(template_sql: str, template: Template, tables: Iterable[Table]) -> None:
    """That this text, bound to these tables, is this template."""
    for oldest in list(_LONG)[: max(0, len(_LONG) + 1 - _LONG_MAX)]:
        _LONG.pop(oldest, None)
    _LONG[template_sql] = _by_name(table for table in tables if table.name in template.tables), template


def _by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """As they are bound to, which is the same whichever version of its schema a table has."""
    return {table.name: replace(table, schema_id=0) for table in tables}


def logged_template(id: str, template_sql: str, tables: Tables) -> Template:
    """The template of an activation in the log, or of saved state. What an earlier version began goes on so."""
    template = template_from_sql(template_sql, tables)
    candidates = chain([template], earlier_templates(template_sql, tables))  # bound only where it is none before
    return next((each for each in candidates if each.id == id), template)


def earlier_templates(template_sql: str, tables: Tables) -> Iterator[Template]:
    """As earlier versions planned its text: without demand, or with operators even for a bare scan."""
    for as_relation in (False, True):
        yield _bound_again(template_sql, _every(tables), as_relation=as_relation, by_demand=False)


def _bound_again(
    template_sql: str, tables: Sequence[Table], *, as_relation: bool = False, by_demand: bool = True
) -> Template:
    parsed = parse(template_sql, dialect_of(tables))
    marks = marks_of(parsed)
    given: dict[str, str | int] = {f"p{number}": mark for mark, number in marks.items()}
    bound = bind_parsed(parsed, tables, {**given, "limit": 0, "offset": 0}, lift_scalars=bool(marks))
    form = OverRelation(bound) if as_relation else _form(bound, tables)
    if isinstance(form, OverRelation):
        form = replace(form, by_demand=by_demand)
    return form.template(*unmarked(form.liftable, marks))


def effective_sql(template: Template, instance: Instance) -> str:
    """The effective query of an instance as its source runs it: the oracle of everything else."""
    writer = writer_of(template)
    return filled(template, instance) if writer is None else effective_select(writer, template, instance)
