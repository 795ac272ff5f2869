"""Calls of functions on PostgreSQL, by their signatures, and CASE. Binds, never evaluates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.dialects.postgres.bind.coercion import alike, as_text, coerced
from headwater.dialects.postgres.bind.comparison import compare, condition
from headwater.dialects.postgres.bind.json import literal_text
from headwater.dialects.postgres.bind.signatures import FUNCTIONS, UNITS
from headwater.dialects.postgres.literals.to_char_format import pieces
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.kind import (
    BOOL,
    DATE,
    FLOAT8,
    INT2,
    INT4,
    PLAIN,
    TEXT,
    TIMESTAMPTZ,
    UNKNOWN,
    PostgresKind,
    element_of,
    is_array,
    is_integer,
    is_text,
)
from headwater.dialects.postgres.types.kinds import common_kind, kind_of, type_of_kind
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.model.value import Type
from headwater.sql.bind.expression import bind_expr, is_aggregate
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.expr import Call, Case, Const, Expr
from headwater.sql.syntax.span import Span, span


def case(scope: Scope, node: exp.Case) -> Bound:
    base = bind_expr(scope, node.this) if node.this else None
    whens = []
    for when in node.args["ifs"]:
        if base is None:
            whens.append(condition(scope, when.this))
        else:
            whens.append(compare(scope, "=", base, bind_expr(scope, when.this), span(node)).expr)
    thens = [bind_expr(scope, when.args["true"]).expr for when in node.args["ifs"]]
    default = bind_expr(scope, node.args["default"]).expr if node.args.get("default") else Const(None, None)
    *thens, default = alike(scope, [*thens, default], span(node))
    kind = common_kind([*thens, default]) or TEXT
    return Bound(Case(tuple(zip(whens, thens, strict=True)), default, type_of_kind(kind)))


def call(scope: Scope, node: exp.Anonymous) -> Bound:
    if scope.clause is not None and is_aggregate(scope.dialect, node):
        return scope.clause.aggregate(scope, node)
    if any(node.args.get(clause) for clause in ("filter", "distinct", "order")):
        raise scope.refusal(f"{node.name}() is not supported yet", span(node))
    args = [bind_expr(scope, arg).expr for arg in node.expressions if not isinstance(arg, exp.Star)]
    special = _SPECIAL.get(node.name)
    return Bound(special(scope, node, args) if special is not None else _function(scope, node, args))


def _function(scope: Scope, node: exp.Anonymous, args: Sequence[Expr]) -> Expr:
    """Of the signatures of a name the first that the arguments fit."""
    for signature in FUNCTIONS.get(node.name, ()):
        if len(signature.takes) == len(args) and all(map(_fits, args, signature.takes)):
            pairs = zip(args, signature.takes, strict=True)
            fitted = tuple(_fitted(scope, arg, kind, span(node)) for arg, kind in pairs)
            return Call(signature.name, fitted, type_of_kind(PostgresKind(signature.gives)))
    told = ", ".join(kind_of(arg).title for arg in args)
    raise scope.refusal(f"the function {node.name}({told}) is not supported yet", span(node), "the source computes it")


def _fitted(scope: Scope, arg: Expr, taken: str, at: Span | None) -> Expr:
    return arg if taken.startswith("array") else coerced(scope, arg, _plain(taken), at)


def _fits(arg: Expr, taken: str) -> bool:
    """`text!` takes only text whose letters are those of the collation C. A literal is taken for text alone: what else
    it might be, depends on functions of that name that we do not know. A unit is such a literal."""
    own = kind_of(arg)
    if taken in UNITS:
        return literal_text(arg) in UNITS[taken]
    if taken == "format":
        return (text := literal_text(arg)) is not None and pieces(text) is not None
    if taken.startswith("array"):
        return is_array(own) and (taken == "array" or is_text(element_of(own)))
    if own == UNKNOWN:
        return _plain(taken) == TEXT
    match taken:
        case "timestamptz":
            return own in (TIMESTAMPTZ, DATE)
        case "text":
            return is_text(own)
        case "int4":
            return own in (INT2, INT4)
        case "int8":
            return is_integer(own)
        case "float8":
            return own == FLOAT8 or is_integer(own)
        case "numeric":
            return is_numeric(own) or is_integer(own)
        case _:
            return own == _plain(taken)


def _plain(taken: str) -> PostgresKind:
    """As the type of an argument."""
    return TEXT if taken in UNITS or taken == "format" else PostgresKind(taken.rstrip("!"))


def _coalesced(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    branches = alike(scope, args, span(node))
    return Call("coalesce", tuple(branches), type_of_kind(common_kind(branches) or TEXT))


def _nullif(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    one, other = args
    equal = compare(scope, "=", Bound(one), Bound(other), span(node)).expr
    kind = kind_of(one)
    if kind == UNKNOWN or numbers.is_literal(one):
        raise scope.refusal("nullif() of a constant is not supported yet", span(node))
    return Case(((equal, Const(None, one.type)),), one, one.type)


def _extreme(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    """NULLs are left out. Doubles have an order of their own."""
    branches = alike(scope, args, span(node))
    kind = common_kind(branches) or TEXT
    if kind not in PLAIN - {BOOL} and not is_numeric(kind):
        raise scope.refusal(f"{node.name}() of {kind.title} is not supported yet", span(node))
    return Call(node.name, tuple(branches), type_of_kind(kind))


def _concat(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    return Call(node.name, tuple(as_text(scope, arg, span(node)) for arg in args), Type.TEXT)


def _joined(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    if len(args) < 2:
        raise scope.refusal("concat_ws() of nothing is not supported yet", span(node))
    return _concat(scope, node, args)


_SPECIAL: dict[str, Callable[[Scope, exp.Anonymous, list[Expr]], Expr]] = {
    "coalesce": _coalesced,
    "nullif": _nullif,
    "greatest": _extreme,
    "least": _extreme,
    "concat": _concat,
    "concat_ws": _joined,
}
