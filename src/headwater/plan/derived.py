"""Templates over relations: joins, groups, sets. Their text is the effective query itself, with holes for constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.dialects.registry import DIALECTS
from headwater.plan.demand import demanded, demands_of
from headwater.plan.fingerprint import relation_name, template_id
from headwater.plan.lift import canonical
from headwater.plan.template import Instance, Selector, Template
from headwater.sql.ir.conjunction import chain
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.predicate import Ask, Op, asks
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Relation
from headwater.sql.ir.relation_text import tree
from headwater.sql.syntax.parse import Parsed, parse


@dataclass(frozen=True, slots=True)
class OverRelation:
    """A query over the columns of its relation. `liftable` are the conjuncts that may be lifted, one for each question
    that they ask. `by_demand`: its operators hold what somebody asks for."""

    query: Query
    by_demand: bool = True

    @property
    def liftable(self) -> tuple[Expr, ...]:
        return tuple(ask.expr for ask in asks_of(self.query.where))

    def template(self, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr]) -> Template:
        """`lifted`: the columns of keys first, then those of selectors; `rest`: of `liftable` what is not lifted."""
        query = self.query
        dialect = query.syntax.params.dialect
        relation = demanded(query.relation, lifted, dialect.evaluator) if self.by_demand else query.relation
        name = relation_name("\n".join(_named_by(relation, lifted, dialect.syntax.expr_text)))
        sql = query.syntax.text(lifted, asks_of(rest))
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

    def notes(self) -> Iterator[str]:
        if self.query.framed or self.query.order:
            yield "ties are ordered by the keys of the tables, of the groups, or by all columns"


def _named_by(relation: Relation, lifted: Sequence[tuple[str, Op]], text: ExprText) -> Iterator[str]:
    """What a relation is named by: with demand, also by the columns that it is arranged by."""
    yield from tree(relation, text)
    if any(demands_of(relation)):
        yield from (f"{column} {op}" for column, op in lifted)


def asks_of(conjuncts: Iterable[Expr]) -> list[Ask]:
    return [ask for conjunct in conjuncts for ask in asks(conjunct)]


# A template's text, bound again


def marks_of(parsed: Parsed) -> dict[str, int]:
    """For each hole `:p1, :p2, …` a text that no column holds, and the hole's number. Where a column is compared with
    the text, there the hole belongs."""
    mark = "\ue000p"
    while mark in parsed.sql:
        mark = "\ue000" + mark
    holes = {node.name for node in parsed.select.find_all(exp.Placeholder)} - {"limit", "offset"}
    return {f"{mark}{name[1:]}": int(name[1:]) for name in holes}


def unmarked(conjuncts: Sequence[Expr], marks: Mapping[str, int]) -> tuple[list[tuple[str, Op]], list[Expr]]:
    """The columns that are compared with holes, in the order of these, and the other conjuncts."""
    found: dict[int, Ask] = {}
    rest: list[Expr] = []
    for conjunct in conjuncts:
        match asks(conjunct):
            case (Ask(values=(str() as text,)) as ask,) if text in marks:
                found[marks[text]] = ask
            case _:
                rest.append(conjunct)
    return [(found[number].column.name, found[number].op) for number in sorted(found)], canonical(rest)


def filled(template: Template, instance: Instance) -> str:
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
