"""LIKE, ILIKE, SIMILAR TO and regular expressions of PostgreSQL. Binds, never matches a text."""

from __future__ import annotations

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import coerced, settled
from headwater.dialects.postgres.bind.json import literal_text
from headwater.dialects.postgres.literals.regex import CLASSES, spelled_out, translated
from headwater.dialects.postgres.types.kind import TEXT, is_text
from headwater.dialects.postgres.types.kinds import BOOLEAN, common_kind, kind_of
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Const, Expr
from headwater.sql.syntax.span import Span, span


def like(scope: Scope, node: exp.Expr, escape: exp.Expr | None = None) -> Bound:
    value, pattern = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    value = coerced(scope, value, TEXT, span(node))
    if not is_text(kind_of(value)) or (name == "ilike" and kind_of(value) != TEXT):
        raise scope.refusal(f"{name.upper()} of {kind_of(value).title} is not supported yet", span(node))
    escapes = [_constant_text(scope, each, span(node)) for each in _escape(scope, escape)]
    if isinstance(settled(pattern), Const):
        pattern = _constant_text(scope, pattern, span(node))
        check_pattern(scope, *(str(each.value) for each in (pattern, *escapes)), at=span(node))
    elif common_kind([value, pattern]) is None or not is_text(kind_of(pattern)):
        raise scope.refusal(f"a pattern of {kind_of(pattern).title} is not supported yet", span(node))
    return Bound(Call(name, (value, pattern, *escapes), BOOLEAN))


def _escape(scope: Scope, node: exp.Expr | None) -> list[Expr]:
    return [] if node is None else [bind_expr(scope, node).expr]


def _constant_text(scope: Scope, expr: Expr, at: Span | None) -> Const:
    text = settled(expr)
    if not isinstance(text, Const) or not isinstance(text.value, str):
        raise scope.refusal("a pattern that is no constant is not supported yet", at)
    return text


def check_pattern(scope: Scope, pattern: str, escape: str = "\\", *, at: Span | None) -> None:
    """A pattern that ends in the middle of an escape fails for the rows that get so far."""
    if len(escape) > 1:
        raise scope.error("the escape must be one character", at)
    rest = pattern
    while escape and escape in rest:
        rest = rest[rest.index(escape) + 1 :]
        if not rest:
            raise scope.refusal("a pattern that ends with its escape is not supported", at)
        rest = rest[1:]


def matched(scope: Scope, node: exp.Binary) -> Bound:
    """By a regular expression. Which letters are digits, blanks or one another's capitals, a collation says."""
    value, pattern = bind_expr(scope, node.this).expr, literal_text(bind_expr(scope, node.expression).expr)
    folded = isinstance(node, exp.RegexpILike)
    known = translated(pattern) if pattern is not None else None
    plain = pattern is not None and not folded and not CLASSES.search(pattern)
    if known is None or not (kind_of(value) == TEXT or (is_text(kind_of(value)) and plain)):
        raise scope.refusal("this regular expression is not supported yet", span(node), "use LIKE")
    name = "bool matches folded" if folded else "bool matches"
    return Bound(Call(name, (value, Const(known, Type.TEXT)), BOOLEAN))


def similar(scope: Scope, node: exp.SimilarTo) -> Bound:
    value, pattern = bind_expr(scope, node.this).expr, literal_text(bind_expr(scope, node.expression).expr)
    regular = spelled_out(pattern) if pattern is not None else None
    known = translated(regular) if regular is not None else None
    if known is None or not is_text(kind_of(value)):
        raise scope.refusal("this pattern of SIMILAR TO is not supported yet", span(node), "use LIKE")
    return Bound(Call("bool matches", (value, Const(known, Type.TEXT)), BOOLEAN))


def escaped(scope: Scope, node: exp.Escape) -> Bound:
    return like(scope, node.this, node.expression)
