"""Names in SQLite's expressions: columns, aliases of the result, and words that are constants where nothing has their
name."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.dialects.sqlite.functions import CLOCKS
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Const
from headwater.sql.syntax.span import Span, span

TRUE, FALSE = Const(1, Type.INTEGER), Const(0, Type.INTEGER)


def column(scope: Scope, node: exp.Column) -> Bound:
    name = node.name.lower()
    if name in CLOCKS and name.startswith("current_") and not node.table and not node.this.quoted:
        raise volatile(scope, name, span(node))
    meant = scope.alias(node)
    return _aliased(scope, node, meant) if meant is not None else scope.resolve(node)


def _aliased(scope: Scope, node: exp.Expr, meant: exp.Expr) -> Bound:
    """What an alias stands for sees no alias."""
    return bind_expr(replace(scope, spelled={}), node.replace(meant.copy()))


def boolean(scope: Scope, node: exp.Boolean) -> Bound:
    name = so_named(scope, node)
    return Bound(TRUE if node.this else FALSE) if name is None else bind_expr(scope, node.replace(name))


def so_named(scope: Scope, node: exp.Boolean) -> exp.Column | None:
    """TRUE and FALSE are no reserved words: a column or alias of that name comes first."""
    word = "true" if node.this else "false"
    if scope.named(word) is None and word not in scope.spelled:
        return None
    name = exp.Column(this=exp.to_identifier(word))
    name.meta.update(node.meta)
    return name


def volatile(scope: Scope, name: str, at: Span | None) -> Exception:
    why = "reads the clock" if name.removesuffix("()") in CLOCKS else "differs from call to call"
    return scope.refusal(f"{name} {why}, so its result cannot be kept current", at, "pass the value as a parameter")
