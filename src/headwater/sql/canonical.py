"""The canonical text of a query over a relation: the user's own, completed, with holes where a template is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from headwater.model.value import Value
from headwater.sql.params import Params
from headwater.sql.write import Hole


@dataclass(frozen=True, slots=True)
class Syntax:
    """The completed tree without its liftable conjuncts; `columns` is how the text names the columns they ask for."""

    tree: exp.Expr
    params: Params
    columns: Mapping[str, exp.Column]

    def text(self, keys: Sequence[str], rest: Sequence[tuple[str, Value]]) -> str:
        """`keys` are compared with `:p1, :p2, …`; `rest` with constants."""
        tree = self.tree.copy()
        holes = [self._equal(name, Hole(this=f":p{number}")) for number, name in enumerate(keys, 1)]
        fixed = [self._equal(name, Hole(this=self.params.dialect.write(value))) for name, value in rest]
        if holes or fixed:
            _add_conjuncts(tree, [*holes, *fixed])
        if tree.args.get("limit"):
            tree.set("limit", exp.Limit(expression=Hole(this=":limit")))
            tree.set("offset", exp.Offset(expression=Hole(this=":offset")))
        return self.params.dialect.writer(self.params).write(tree)

    def _equal(self, name: str, hole: Hole) -> exp.Expr:
        return exp.EQ(this=self.columns[name].copy(), expression=hole)


def _add_conjuncts(tree: exp.Expr, added: Sequence[exp.Expr]) -> None:
    where = tree.args.get("where")
    conjuncts = [*added, *([where.this] if where else [])]
    tree.set("where", exp.Where(this=reduce(_and, conjuncts)))


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)
