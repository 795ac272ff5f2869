"""Templates over relations: joins, groups, sets. Their text is the effective query itself, with holes for constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwater.model.schema import Table
from headwater.model.value import Value
from headwater.plan.fingerprint import relation_name, template_id
from headwater.plan.lift import canonical
from headwater.plan.template import Instance, Template
from headwater.sql.bind import bind_parsed
from headwater.sql.chain import chain
from headwater.sql.dialects import DIALECTS
from headwater.sql.expr import Call, ColumnRef, Const, Expr
from headwater.sql.parse import Parsed, parse
from headwater.sql.query import Query
from headwater.sql.relation import Relation
from headwater.sql.tree import tree

_MARK = "\ue000p"


def derived_template(query: Query, relation: Relation, keys: Sequence[str], rest: Sequence[Expr]) -> Template:
    assert query.syntax is not None
    name = relation_name("\n".join(tree(relation)))
    sql = query.syntax.text(keys, [_equality(conjunct) for conjunct in rest])
    return Template(
        id=template_id(name, sql),
        sql=sql,
        table=name,
        keys=tuple(keys),
        where=chain("and", rest) if rest else None,
        outputs=query.outputs,
        order=query.order,
        framed=query.framed,
        relation=relation,
        empty=query.empty,
        dialect=query.syntax.params.dialect.name,
    )


def derived_from_sql(parsed: Parsed, tables: Sequence[Table]) -> Template:
    """Every hole is filled with a mark that no column holds; where a column is compared with it, there is a key."""
    holes = {node.name for node in parsed.select.find_all(exp.Placeholder)} - {"limit", "offset"}
    marks = {name: f"{_MARK}{name[1:]}" for name in holes}
    bound = bind_parsed(parsed, tables, {**marks, "limit": 0, "offset": 0}, lift_scalars=bool(holes))
    assert bound.relation is not None
    found = {str(value): name for name, value in map(_equality, bound.where) if value in marks.values()}
    keys = [found[f"{_MARK}{number}"] for number in range(1, len(marks) + 1)]
    rest = canonical(conjunct for conjunct in bound.where if _equality(conjunct)[1] not in marks.values())
    return derived_template(bound, bound.relation, keys, rest)


def derived_sql(template: Template, instance: Instance) -> str:
    """The template's text with the instance's values in its holes."""
    dialect, text = DIALECTS[template.dialect], template.sql
    values = {f"p{number}": dialect.write(value) for number, value in enumerate(instance.values, 1)}
    values["limit"] = dialect.all_rows() if instance.limit is None else str(instance.limit)
    values["offset"] = str(instance.offset)
    holes = list(parse(text, dialect).select.find_all(exp.Placeholder))
    for hole in sorted(holes, key=lambda hole: -int(hole.meta["start"])):
        text = text[: hole.meta["start"]] + values[hole.name] + text[hole.meta["end"] + 1 :]
    return text


def derived_notes(query: Query) -> Iterator[str]:
    if query.framed or query.order:
        yield "ties are ordered by the keys of the tables, of the groups, or by all columns"


def _equality(conjunct: Expr) -> tuple[str, Value]:
    match conjunct:
        case Call(args=(ColumnRef() as column, Const() as constant)):
            return column.name, constant.value
        case _:
            raise AssertionError(f"expected a column and a constant, found {conjunct}")
