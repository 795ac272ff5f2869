"""PostgreSQL's operands and operators, typed as PostgreSQL types them; and the rule of each kind of syntax node.

What we do not compute exactly as PostgreSQL does is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from headwater.dialects.postgres.bind import arrays as elements
from headwater.dialects.postgres.bind.calls import call, case
from headwater.dialects.postgres.bind.casts import cast, collate, zoned
from headwater.dialects.postgres.bind.coercion import INTEGER, alike, as_text, coerced, is_number, unknown, widened
from headwater.dialects.postgres.bind.comparison import (
    FALSE,
    SIGNS,
    TRUE,
    between,
    comparison,
    connection,
    identity,
    membership,
    negation,
)
from headwater.dialects.postgres.bind.json import part, question
from headwater.dialects.postgres.bind.patterns import escaped, like, matched, similar
from headwater.dialects.postgres.bind.temporal import summed
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.kind import (
    BOOL,
    FLOAT8,
    INT8,
    INTEGERS,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    UNKNOWN,
    is_array,
    is_text,
)
from headwater.dialects.postgres.types.kinds import (
    BOOLEAN,
    COMPARISONS,
    common_kind,
    fits,
    kind_of,
    type_of_kind,
    wider,
)
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr, existence, scalar
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Case, Cast, Const, Expr
from headwater.sql.ir.walk import references
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.span import Span, span

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_PARTS: dict[type[exp.Expr], str] = {
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
}
_QUESTIONS: dict[type[exp.Expr], str] = {
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
    exp.JSONBContains: "?",
}


def bind(scope: Scope, node: exp.Expr) -> Bound:
    rule = RULES.get(type(node))
    if rule is None:
        raise scope.refusal(f"{type(node).__name__} is not supported yet", span(node))
    bound = rule(scope, node)
    if not isinstance(bound.expr, Call | Case) or next(references(bound.expr), None) is not None:
        return bound
    if isinstance(bound.expr, Call) and bound.expr.name in COMPARISONS:
        return Bound(Cast(bound.expr, BOOL, BOOLEAN))  # which says whose truth it is, and cannot fail
    raise scope.refusal("a constant that must be computed is not supported yet", span(node), "write its value")


def column(scope: Scope, node: exp.Column) -> Bound:
    meant = scope.alias(node)
    return bind_expr(scope, node.replace(meant.copy())) if meant is not None else scope.resolve(node)


def literal(scope: Scope, node: exp.Literal) -> Bound:
    if node.is_string:
        return Bound(unknown(node.name))
    return _number(node.name)


def _number(text: str) -> Bound:
    """A sign before a number is part of it: -2147483648 still has four bytes."""
    if INTEGER.fullmatch(text) and fits(int(text), INT8):
        return Bound(Const(int(text), Type.INTEGER))
    number = numbers.literal(text)
    assert number is not None
    return Bound(number)


def null(scope: Scope, node: exp.Null) -> Bound:
    return Bound(Const(None, None))


def boolean(scope: Scope, node: exp.Boolean) -> Bound:
    return Bound(TRUE if node.this else FALSE)


def placeholder(scope: Scope, node: exp.Placeholder) -> Bound:
    constant = scope.params.const(node)
    return Bound(constant if constant.value is None else Cast(constant, UNKNOWN, Type.TEXT))


def negative(scope: Scope, node: exp.Neg) -> Bound:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.name}")
    arg = bind_expr(scope, node.this).expr
    kind = kind_of(arg)
    if not is_number(kind) and kind != INTERVAL:
        raise scope.refusal(f"the negative of {kind.title} is not supported yet", span(node))
    return Bound(Call(f"{kind.base} neg", (arg,), type_of_kind(kind)))


def positive(scope: Scope, node: Plus) -> Bound:
    arg = bind_expr(scope, node.this)
    if not is_number(kind_of(arg.expr)):
        raise scope.refusal("a plus before what is no number is not supported", span(node))
    return arg


def arithmetic(scope: Scope, node: exp.Binary) -> Bound:
    left, right = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    return Bound(computed(scope, _ARITHMETIC[type(node)], left, right, span(node)))


def computed(scope: Scope, sign: str, left: Expr, right: Expr, at: Span | None) -> Expr:
    left, right = widened(left, right)
    kinds = {kind_of(side) for side in (left, right)} - {UNKNOWN}
    if (moment := summed(sign, left, right)) is not None:
        return moment
    if kinds and kinds <= {*INTEGERS}:
        kind = wider(kinds)
    elif kinds and all(map(is_number, kinds)) and (FLOAT8 not in kinds or sign != "%"):
        kind = FLOAT8 if FLOAT8 in kinds else NUMERIC
    else:
        told = " and ".join(sorted(kind.title for kind in kinds)) or "two literals"
        raise scope.refusal(f"{sign} of {told} is not supported yet", at, "the source computes it")
    args = tuple(coerced(scope, side, kind, at) for side in (left, right))
    return Call(f"{kind.base} {sign}", args, type_of_kind(kind))


def concatenated(scope: Scope, node: exp.DPipe) -> Bound:
    sides = [bind_expr(scope, side).expr for side in (node.this, node.expression)]
    if not any(is_text(kind_of(side)) for side in sides):
        raise scope.refusal("|| without a text is not supported yet", span(node), "CAST to text")
    return Bound(Call("text ||", tuple(as_text(scope, side, span(node)) for side in sides), Type.TEXT))


def taken(scope: Scope, node: exp.Binary) -> Bound:
    """A part of a document."""
    document, place = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    found = part(_PARTS[type(node)], document, place)
    if found is None:
        raise scope.refusal(f"{_PARTS[type(node)]} of this is not supported yet", span(node), "use a constant path")
    return Bound(found)


def asked(scope: Scope, node: exp.Binary) -> Bound:
    """What a document or an array holds."""
    sign = _QUESTIONS[type(node)]
    one, other = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    if sign != "?" and JSONB in (kind_of(one), kind_of(other)):
        one, other = (coerced(scope, side, JSONB, span(node)) for side in (one, other))
    array = next(filter(is_array, (kind_of(one), kind_of(other))), None)
    if array is not None:
        one, other = (coerced(scope, side, array, span(node)) for side in elements.alike(one, other))
    found = question(sign, one, other) if array is None else elements.question(sign, one, other)
    if found is None:
        raise scope.refusal(f"{sign} of {kind_of(one).title} is not supported yet", span(node))
    return Bound(found)


def array(scope: Scope, node: exp.Array) -> Bound:
    """Of constants."""
    items = alike(scope, [bind_expr(scope, item).expr for item in node.expressions], span(node))
    found = elements.constant(items, common_kind(items) or TEXT) if items else None
    if found is None:
        raise scope.refusal("this array is not supported yet", span(node), "write it as a text: '{1,2}'")
    return Bound(found)


def subscripted(scope: Scope, node: exp.Bracket) -> Bound:
    one, place = (bind_expr(scope, each).expr for each in (node.this, *node.expressions))
    found = elements.subscript(one, place)
    if found is None:
        raise scope.refusal(f"an element of {kind_of(one).title} is not supported yet", span(node))
    return Bound(found)


RULES: dict[type[exp.Expr], Callable[[Scope, Any], Bound]] = {
    exp.Column: column,
    exp.Literal: literal,
    exp.Null: null,
    exp.Boolean: boolean,
    exp.Placeholder: placeholder,
    exp.Neg: negative,
    Plus: positive,
    exp.DPipe: concatenated,
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys((exp.And, exp.Or), connection),
    **dict.fromkeys(SIGNS, comparison),
    **dict.fromkeys(_PARTS, taken),
    **dict.fromkeys(_QUESTIONS, asked),
    exp.Array: array,
    exp.Bracket: subscripted,
    exp.Is: identity,
    exp.Not: negation,
    exp.In: membership,
    exp.Between: between,
    exp.Like: like,
    exp.ILike: like,
    exp.SimilarTo: similar,
    exp.Escape: escaped,
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), matched),
    exp.Collate: collate,
    exp.Cast: cast,
    exp.AtTimeZone: zoned,
    exp.Case: case,
    exp.Anonymous: call,
    exp.Subquery: scalar,
    exp.Exists: existence,
}
