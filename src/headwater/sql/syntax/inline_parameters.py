"""Parameters of a syntax tree replaced by the constants given for them, as they would be written.

So the canonical text, bound again, is the very tree that was bound first.
"""

from __future__ import annotations

from sqlglot import exp

from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.parse import parse

_TERMS = (exp.Ordered, exp.Group)  # there a written number would be that of a result column


def with_literals(tree: exp.Expr, params: Params) -> None:
    for node in list(tree.find_all(exp.Placeholder)):
        if not isinstance(node.parent, _TERMS):
            node.replace(_written(node, params))


def _written(node: exp.Placeholder, params: Params) -> exp.Expr:
    dialect = params.dialect
    item: exp.Expr = parse(f"SELECT {dialect.syntax.write(params.const(node).value)}", dialect).select.expressions[0]
    for part in item.walk():
        part.meta.clear()
    item.meta.update(node.meta)
    return item.pop()
