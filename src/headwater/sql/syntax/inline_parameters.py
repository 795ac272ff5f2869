"""Parameters of a syntax tree replaced by the constants given for them, as they would be written.

So the canonical text, bound again, is the very tree that was bound first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.parse import parse

_TERMS = (exp.Ordered, exp.Group)  # there a written number would be that of a result column


def with_literals(tree: exp.Expr, params: Params) -> None:
    nodes = [node for node in tree.find_all(exp.Placeholder) if not isinstance(node.parent, _TERMS)]
    items = _written(nodes, params)
    for node, item in zip(nodes, items, strict=True):
        for part in item.walk():
            part.meta.clear()
        item.meta.update(node.meta)
    _replace(nodes, items)


def _replace(nodes: Sequence[exp.Expr], items: Sequence[exp.Expr]) -> None:
    """A list of many is set once: sqlglot walks along the whole of it each time."""
    lists: dict[tuple[int, str], tuple[exp.Expr, list[exp.Expr]]] = {}
    for node, item in zip(nodes, items, strict=True):
        parent, key = node.parent, node.arg_key
        if parent is None or key is None or node.index is None:
            node.replace(item)
        else:
            lists.setdefault((id(parent), key), (parent, list(parent.args[key])))[1][node.index] = item
    for (_, key), (parent, changed) in lists.items():
        parent.set(key, changed)


def _written(nodes: Sequence[exp.Placeholder], params: Params) -> list[exp.Expr]:
    """All read at once: there may be many."""
    texts = [params.dialect.syntax.write(params.const(node).value) for node in nodes]
    return list(parse(f"SELECT {', '.join(texts)}", params.dialect).select.expressions) if texts else []
