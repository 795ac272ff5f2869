"""A plan as text that stays the same from run to run: for people, for golden files, for the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Table
from headwater.plan.derived import written
from headwater.plan.join_order.order import JoinOrder, estimates, reordered
from headwater.plan.one_table import writer_of
from headwater.plan.planner import Planned, effective_sql
from headwater.plan.template import Instance, Template
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.ir.predicate import Op
from headwater.sql.ir.relation import Join, Relation, columns_of, walked
from headwater.sql.ir.relation_text import tree

_WHY = {"incremental": "one table, row by row; every change is matched as it comes"}
_PLAN_MOVED = "plan, where it is followed again"
_WHY_DERIVED = {"incremental": "every operator follows the changes of its inputs"}


@dataclass(frozen=True, slots=True)
class Actuals:
    """What was measured: beside each line of the relation or source, and of the query as a whole."""

    beside: Sequence[str]
    whole: Sequence[str]


def explain(
    planned: Planned,
    table: Table | None = None,
    notes: Iterable[str] = (),
    actuals: Actuals | None = None,
    order: JoinOrder | None = None,
) -> str:
    """`table` is asked for where the template has no relation of its own. `order` is the one in which its joins run."""
    template, instance = planned.template, planned.instance
    every_note = [*planned.notes, *notes]
    sections = (
        [f"template {template.id}", f"instance {instance.id}"],
        [f"strategy {planned.strategy}: {_why(planned)}"],
        [
            _PLAN_MOVED if planned.moved else "plan",
            *_tree(list(_operators(template, instance)), _beside(_source(template, table, order), actuals)),
        ],
        _listed("params", [f":p{n} {_told(*asked, text)}" for n, asked, text in _params(template, instance)]),
        ["effective query", f"  {effective_sql(template, instance)}"],
        _listed("actual", actuals.whole if actuals is not None else []),
        _listed("notes", every_note),
    )
    return "\n".join(line for section in sections for line in section)


def _why(planned: Planned) -> str:
    if planned.moved:
        return planned.moved
    reasons = _WHY if planned.template.relation is None else _WHY_DERIVED
    return reasons.get(planned.strategy, "chosen by the planner")


def _operators(template: Template, instance: Instance) -> Iterator[str]:
    """Top first: the result flows upwards."""
    if template.framed:
        yield f"limit {'all' if instance.limit is None else instance.limit} offset {instance.offset}"
    if template.ordered:
        yield f"order {', '.join(_ordered(template))}"
    text = _text(template)
    yield f"project {', '.join(text.output(output) for output in template.outputs)}"
    if template.where is not None:
        yield f"filter {text.text(template.where)}"
    if template.lifted:
        asked = (_told(*asked, f":p{n}") for n, asked in enumerate(template.lifted, 1))
        yield f"join params on {', '.join(asked)}"


def _text(template: Template) -> ExprText:
    return DIALECTS[template.dialect].syntax.expr_text


def _ordered(template: Template) -> Iterator[str]:
    writer = writer_of(template)
    for key in template.order:
        yield _text(template).key(key) if writer is None else writer.key(key, template.table)


def _source(template: Template, table: Table | None, order: JoinOrder | None) -> list[str]:
    if template.relation is not None:
        return list(_ordered_joins(template.relation, order, _text(template)))
    assert table is not None
    return [f"source {table.name} ({'key ' + ', '.join(table.key) if table.key else 'no key'})"]


def _ordered_joins(relation: Relation, order: JoinOrder | None, text: ExprText) -> Iterator[str]:
    """In the order they run, with the rows that each join was expected to give when the order was chosen."""
    physical, expected = reordered(relation, order), estimates(relation, order)
    for line, node in zip(tree(physical, text), walked(physical), strict=True):
        columns = frozenset(column.name for column in columns_of(node))
        known = isinstance(node, Join) and columns in expected
        yield f"{line}  ~{expected[columns]:,} rows" if known else line


def _beside(lines: list[str], actuals: Actuals | None) -> list[str]:
    if actuals is None:
        return lines
    return [f"{line}  [{found}]" for line, found in zip(lines, actuals.beside, strict=True)]


def _tree(above: Sequence[str], below: Sequence[str]) -> list[str]:
    lines = [f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{line}" for depth, line in enumerate(above)]
    depth = len(above)
    first, *rest = below
    lines += [f"{'   ' * (depth - 1)}└─ {first}", *(f"{'   ' * depth}{line}" for line in rest)]
    return [f"  {line}" for line in lines]


def _params(template: Template, instance: Instance) -> list[tuple[int, tuple[str, Op], str]]:
    pairs = zip(template.lifted, written(template, instance), strict=True)
    return [(number, asked, text) for number, (asked, text) in enumerate(pairs, 1)]


def _told(column: str, op: Op, text: str) -> str:
    return f"{column} in ({text})" if op == "in" else f"{column} {op} {text}"


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [title, *(f"  {item}" for item in items)] if items else []
