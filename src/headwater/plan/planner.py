"""From a bound query to its template and instance, and back from the template's text. Never touches data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from headwater.dialects.registry import Tables, dialect_of
from headwater.dialects.sqlite.render import render_key, render_operand, render_output
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.plan.derived import derived_from_sql, derived_notes, derived_sql, derived_template, written
from headwater.plan.effective_order import distinct_keys, effective_order
from headwater.plan.fingerprint import instance_id, template_id
from headwater.plan.lift import Lifted, canonical, lift
from headwater.plan.template import Instance, Selector, Template
from headwater.sql.bind.bind import bind, bind_parsed, is_plain
from headwater.sql.bind.scope import find
from headwater.sql.ir.conjunction import chain, operands
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.identifier import quote
from headwater.sql.ir.predicate import Op
from headwater.sql.ir.query import Query
from headwater.sql.syntax.parameters import Given
from headwater.sql.syntax.parse import Parsed, parse

_LONG_SQL, _LONG_MAX = 4 << 10, 64
_LONG: dict[str, tuple[dict[str, Table], Template]] = {}  # long texts bound before, with the tables they were bound to
_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: "=",
    exp.In: "in",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """`text` and `given` are the query as its user wrote it: it may have to be planned again."""

    template: Template
    instance: Instance
    strategy: str = "incremental"
    notes: tuple[str, ...] = ()
    text: str = field(default="", compare=False)
    given: Given = field(default=(), compare=False)


def plan(query: Query | str, tables: Tables, params: Given = ()) -> Planned:
    """The template a query belongs to, and the constants that make it this query."""
    bound = bind(query, tables, params) if isinstance(query, str) else query
    lifted = lift(bound.where)
    if bound.empty is not None and lifted.rest:  # asked for a value that no row can have, or for two
        bound = bind(bound.sql, tables, params, lift_scalars=False)
        lifted = lift(bound.where)
    asked = lifted.asked
    if bound.relation is not None:
        template = derived_template(bound, bound.relation, asked, lifted.rest)
        return _planned(template, lifted, bound, derived_notes(bound))
    table = next(table for table in _every(tables) if table.name == bound.table)
    template = _template(table, asked, lifted.rest, bound)
    return _planned(template, lifted, bound, _notes(template, bound, table))


def _planned(template: Template, lifted: Lifted, bound: Query, notes: Iterable[str]) -> Planned:
    id = instance_id(template.id, lifted.values, bound.limit, bound.offset)
    instance = Instance(id, template.id, lifted.values, bound.limit, bound.offset)
    return Planned(template, instance, notes=tuple(notes))


def _every(tables: Tables) -> Sequence[Table]:
    return tables if isinstance(tables, Sequence) else list(tables.values())


def template_from_sql(template_sql: str, tables: Table | Tables) -> Template:
    """Bind a template's canonical text again, perhaps against newer versions of its tables. A long one was perhaps
    bound just now: by who planned it, or by a cell beside."""
    if len(template_sql) < _LONG_SQL:
        return _bound_again(template_sql, tables)
    given = {table.name: table for table in ([tables] if isinstance(tables, Table) else _every(tables))}
    known = _LONG.get(template_sql)
    if known is not None and all(given.get(name) == table for name, table in known[0].items()):
        return known[1]
    bound = _bound_again(template_sql, tables)
    while len(_LONG) >= _LONG_MAX:
        _LONG.pop(next(iter(_LONG)), None)
    _LONG[template_sql] = {name: given[name] for name in bound.tables if name in given}, bound
    return bound


def _bound_again(template_sql: str, tables: Table | Tables) -> Template:
    every = [tables] if isinstance(tables, Table) else _every(tables)
    parsed = parse(template_sql, dialect_of(every))
    if not (parsed.dialect.has_plain and is_plain(parsed.dialect, parsed.select)):
        return derived_from_sql(parsed, every)
    return _plain_from_sql(parsed, every)


def _plain_from_sql(parsed: Parsed, tables: Sequence[Table]) -> Template:
    lifted, rest = _take_holes(parsed)
    parsed.select.set("where", exp.Where(this=reduce(_and_nodes, rest)) if rest else None)
    bound = bind_parsed(parsed, tables, {"limit": 0, "offset": 0})
    table = next(table for table in tables if table.name == bound.table)
    named = [(column.name, op) for name, op in lifted if (column := find(table.columns, name))]
    return _template(table, named, canonical(bound.where), bound)


def effective_sql(template: Template, instance: Instance, table: Table | None = None) -> str:
    """The effective query of an instance as SQLite runs it: the oracle of everything else. Derived templates need no
    table for it: theirs is their own text."""
    if template.relation is not None:
        return derived_sql(template, instance)
    pairs = zip(template.lifted, written(template, instance), strict=True)
    lifted = [compared(*asked, text) for asked, text in pairs]
    where = [*lifted, *([render_operand(template.where)] if template.where is not None else [])]
    limit = -1 if instance.limit is None else instance.limit
    frame = f"LIMIT {limit} OFFSET {instance.offset}" if template.framed else ""
    return _select(template.table, template.outputs, where, template.order, frame)


def compared(column: str, op: Op, text: str) -> str:
    return f"{quote(column)} IN ({text})" if op == "in" else f"{quote(column)} {op} {text}"


def _template(table: Table, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr], bound: Query) -> Template:
    holes = [compared(*asked, f":p{number}") for number, asked in enumerate(lifted, 1)]
    where = [*holes, *(render_operand(conjunct) for conjunct in rest)]
    frame = "LIMIT :limit OFFSET :offset" if bound.framed else ""
    sql = _select(table.name, bound.outputs, where, distinct_keys(bound.order), frame)
    return Template(
        id=template_id(table.name, sql),
        sql=sql,
        table=table.name,
        keys=tuple(name for name, op in lifted if op == "="),
        where=chain("and", rest) if rest else None,
        outputs=bound.outputs,
        order=effective_order(bound.order, table, bound.framed),
        framed=bound.framed,
        selectors=tuple(Selector(name, op) for name, op in lifted if op != "="),
    )


def _select(table: str, outputs: Iterable[Output], where: Sequence[str], order: Sequence[OrderKey], frame: str) -> str:
    clauses = (
        f"SELECT {', '.join(render_output(output) for output in outputs)} FROM {quote(table)}",
        f"WHERE {' AND '.join(where)}" if where else "",
        f"ORDER BY {', '.join(render_key(key, table) for key in order)}" if order else "",
        frame,
    )
    return " ".join(clause for clause in clauses if clause)


def _and_nodes(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _take_holes(parsed: Parsed) -> tuple[list[tuple[str, Op]], list[exp.Expr]]:
    """The columns compared with `:p1, :p2, …`, in that order, and the other conjuncts."""
    where = parsed.select.args.get("where")
    lifted: list[tuple[str, Op]] = []
    rest: list[exp.Expr] = []
    for node in operands(where.this, exp.And) if where else []:
        given = node.expressions[0] if node.expressions else node.expression
        if type(node) in _OPS and isinstance(given, exp.Placeholder):
            lifted.append((node.this.name, _OPS[type(node)]))
        else:
            rest.append(node)
    return lifted, rest


def _notes(template: Template, query: Query, table: Table) -> Iterable[str]:
    identity = ", ".join(table.identity)
    if template.framed and not query.order:
        yield f"LIMIT without ORDER BY: rows are taken in the order of {identity}"
    elif template.ordered:
        yield f"ties are ordered by {identity}"
    if not table.key:
        yield f"{table.name} has no key: equal rows are counted, not told apart"
    for column in table.columns:
        if column.type is Type.ANY:
            yield f"{table.name}.{column.name} holds values of several types"
