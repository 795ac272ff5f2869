"""The canonical text of a query over a relation: the user's own, completed, with holes where a template is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from headwater.sql.ir.predicate import Ask, Op
from headwater.sql.syntax.nodes import Hole
from headwater.sql.syntax.parameters import Params

_SIGNS: dict[Op, type[exp.Expr]] = {"=": exp.EQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}


@dataclass(frozen=True, slots=True)
class Syntax:
    """The completed tree without its liftable conjuncts; `columns` is how the text names the columns they ask for, of
    which `aggregates` are asked for in HAVING."""

    tree: exp.Expr
    params: Params
    columns: Mapping[str, exp.Expr]
    aggregates: frozenset[str] = frozenset()

    def text(self, lifted: Sequence[tuple[str, Op]], rest: Sequence[Ask]) -> str:
        """The columns in `lifted` are compared with `:p1, :p2, …`; `rest` with constants."""
        tree = self.tree.copy()
        holes = [(name, self._compared(name, op, [f":p{number}"])) for number, (name, op) in enumerate(lifted, 1)]
        fixed = [(ask.column.name, self._fixed(ask)) for ask in rest]
        for clause, of_groups in ((exp.Where, False), (exp.Having, True)):
            added = [each for name, each in (*holes, *fixed) if (name in self.aggregates) is of_groups]
            if added:
                _add_conjuncts(tree, clause, added)
        if tree.args.get("limit"):
            tree.set("limit", exp.Limit(expression=Hole(this=":limit")))
            tree.set("offset", exp.Offset(expression=Hole(this=":offset")))
        return self.params.dialect.syntax.writer(self.params).write(tree)

    def _fixed(self, ask: Ask) -> exp.Expr:
        return self._compared(ask.column.name, ask.op, map(self.params.dialect.syntax.write, ask.values))

    def _compared(self, name: str, op: Op, texts: Iterable[str]) -> exp.Expr:
        column, holes = self.columns[name].copy(), [Hole(this=text) for text in texts]
        return exp.In(this=column, expressions=holes) if op == "in" else _SIGNS[op](this=column, expression=holes[0])


def _add_conjuncts(tree: exp.Expr, clause: type[exp.Where | exp.Having], added: Sequence[exp.Expr]) -> None:
    before = tree.args.get(clause.key)
    conjuncts = [*added, *([before.this] if before else [])]
    tree.set(clause.key, clause(this=reduce(_and, conjuncts)))


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)
