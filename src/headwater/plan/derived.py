"""Templates over relations: joins, groups, sets. Their text is the effective query itself, with holes for constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Table
from headwater.plan.fingerprint import relation_name, template_id
from headwater.plan.lift import canonical
from headwater.plan.template import Instance, Selector, Template
from headwater.sql.bind.bind import bind_parsed
from headwater.sql.ir.conjunction import chain
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.predicate import Ask, Op, asks
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Relation
from headwater.sql.ir.relation_text import tree
from headwater.sql.syntax.parse import Parsed, parse


def derived_template(
    query: Query, relation: Relation, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr]
) -> Template:
    """`lifted`: the columns of keys first, then those of selectors."""
    assert query.syntax is not None
    dialect = query.syntax.params.dialect
    name = relation_name("\n".join(tree(relation, dialect.syntax.expr_text)))
    sql = query.syntax.text(lifted, [_ask(conjunct) for conjunct in rest])
    return Template(
        id=template_id(name, sql),
        sql=sql,
        table=name,
        keys=tuple(name for name, op in lifted if op == "="),
        where=chain("and", rest) if rest else None,
        outputs=query.outputs,
        order=query.order,
        framed=query.framed,
        relation=relation,
        empty=query.empty,
        dialect=dialect.name,
        selectors=tuple(Selector(name, op) for name, op in lifted if op != "="),
    )


def derived_from_sql(parsed: Parsed, tables: Sequence[Table]) -> Template:
    """Every hole is filled with a mark that no column holds; where a column is compared with it, there it belongs."""
    holes = {node.name for node in parsed.select.find_all(exp.Placeholder)} - {"limit", "offset"}
    mark = _mark(parsed.sql)
    marks = {f"{mark}{name[1:]}": int(name[1:]) for name in holes}
    filling = {f"p{number}": text for text, number in marks.items()}
    bound = bind_parsed(parsed, tables, {**filling, "limit": 0, "offset": 0}, lift_scalars=bool(holes))
    assert bound.relation is not None
    found = {marks[str(ask.values[0])]: ask for ask in map(_ask, bound.where) if ask.values[0] in marks}
    rest = canonical(conjunct for conjunct in bound.where if _ask(conjunct).values[0] not in marks)
    lifted = [(found[number].column.name, found[number].op) for number in sorted(found)]
    return derived_template(bound, bound.relation, lifted, rest)


def _mark(text: str) -> str:
    """Nothing in the text is like it."""
    mark = "\ue000p"
    while mark in text:
        mark = "\ue000" + mark
    return mark


def derived_sql(template: Template, instance: Instance) -> str:
    """The template's text with the instance's values in its holes."""
    dialect, text = DIALECTS[template.dialect], template.sql
    values = {f"p{number}": text for number, text in enumerate(written(template, instance), 1)}
    values["limit"] = dialect.syntax.all_rows() if instance.limit is None else str(instance.limit)
    values["offset"] = str(instance.offset)
    holes = list(parse(text, dialect).select.find_all(exp.Placeholder))
    for hole in sorted(holes, key=lambda hole: -int(hole.meta["start"])):
        text = text[: hole.meta["start"]] + values[hole.name] + text[hole.meta["end"] + 1 :]
    return text


def written(template: Template, instance: Instance) -> list[str]:
    """The values as they stand in the places of their holes."""
    write = DIALECTS[template.dialect].syntax.write
    lists = [(value,) for value in instance.keyed(template)] + [row for _, row in instance.selected(template)]
    return [", ".join(map(write, row)) for row in lists]


def derived_notes(query: Query) -> Iterator[str]:
    if query.framed or query.order:
        yield "ties are ordered by the keys of the tables, of the groups, or by all columns"


def _ask(conjunct: Expr) -> Ask:
    (ask,) = asks(conjunct)
    return ask
