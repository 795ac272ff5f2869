"""AND and OR as lists: chains are flattened and kept as balanced trees, so that a long one is not a deep one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwater.model.value import Type
from headwater.sql.ir.expr import Call, Expr


def parts(name: str, expr: Expr) -> Iterator[Expr]:
    """The operands of a chain, left to right; the expression itself where it is none."""
    if isinstance(expr, Call) and expr.name == name:
        for arg in expr.args:
            yield from parts(name, arg)
    else:
        yield expr


def chain(name: str, exprs: Sequence[Expr]) -> Expr:
    """At least one operand. Both connectives are associative, NULLs included."""
    if len(exprs) == 1:
        return exprs[0]
    half = (len(exprs) + 1) // 2
    return Call(name, (chain(name, exprs[:half]), chain(name, exprs[half:])), Type.INTEGER)


def operands(node: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    """The same of a syntax tree, without recursion: there a chain is as deep as it is long."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if type(node) is connector:
            waiting += [node.expression, node.this]
        else:
            found.append(node)
    return found
