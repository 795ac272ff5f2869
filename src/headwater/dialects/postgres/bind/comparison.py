"""Comparisons and conditions of PostgreSQL: = and its like, IS, IN, ANY, BETWEEN, AND, OR, NOT. Only binds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.dialects.postgres.bind import arrays as elements
from headwater.dialects.postgres.bind.coercion import coerced, is_number, widened
from headwater.dialects.postgres.bind.json import literal_text
from headwater.dialects.postgres.bind.temporal import comparable
from headwater.dialects.postgres.literals.array_text import items_of
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.bpchar import as_text as as_unpadded
from headwater.dialects.postgres.types.bpchar import filled, is_padded, stripped
from headwater.dialects.postgres.types.kind import (
    BOOL,
    FLOAT4,
    FLOAT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    PLAIN,
    REALS,
    UNKNOWN,
    PostgresKind,
    element_of,
    is_array,
    is_integer,
    is_text,
)
from headwater.dialects.postgres.types.kinds import BOOLEAN, common_kind, is_plain, kind_of
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.sql.bind.expression import bind_expr, clause
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.conjunction import chain, operands, parts
from headwater.sql.ir.expr import Call, Const, Expr
from headwater.sql.syntax.span import Span, span

TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)
SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is",
    exp.NullSafeNEQ: "isnot",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = ("=", "<>", "is", "isnot")


def condition(scope: Scope, node: exp.Expr) -> Expr:
    expr = bind_expr(scope, node).expr
    return coerced(scope, expr, BOOL, span(node))


def connection(scope: Scope, node: exp.Connector) -> Bound:
    name = "and" if isinstance(node, exp.And) else "or"
    flat = [part for each in operands(node, type(node)) for part in parts(name, condition(scope, each))]
    joined = chain(name, flat)
    assert isinstance(joined, Call)
    return Bound(Call(name, joined.args, BOOLEAN))


def negation(scope: Scope, node: exp.Not) -> Bound:
    return Bound(Call("not", (condition(scope, node.this),), BOOLEAN))


def comparison(scope: Scope, node: exp.Binary) -> Bound:
    left, right = (bind_expr(scope, side) for side in (node.this, node.expression))
    return compare(scope, SIGNS[type(node)], left, right, span(node))


def compare(scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
    """A constant ends up on the right. Doubles are compared by their own: NaN equals itself and is the largest."""
    if (padded := _filled(name, left.expr, right.expr)) is not None:
        return Bound(padded)
    if _is_padded_with_text(left.expr, right.expr):
        raise scope.refusal("comparing char(n) with text or varchar is not supported yet", at)
    one, other = elements.alike(*widened(*_unfilled(left.expr, right.expr)))
    kinds = {kind_of(one), kind_of(other)} - {UNKNOWN}
    if kind_of(one) == kind_of(other) == FLOAT4:
        return Bound(Call(f"float8 {name}", (one, other), BOOLEAN))
    if any(map(is_numeric, kinds)) and all(map(is_number, kinds)) and FLOAT8 not in kinds:
        one, other = (numbers.compared(_read_as_numeric(scope, side, at)) for side in (one, other))
        return Bound(_constant_last(name, one, other))
    if FLOAT8 in kinds and all(map(is_number, kinds)):
        args = tuple(coerced(scope, side, FLOAT8, at) for side in (one, other))
        return Bound(Call(f"float8 {name}", args, BOOLEAN))
    if (moments := comparable(one, other)) is not None:
        return Bound(_constant_last(name, *moments))
    kind = common_kind([one, other])
    if kind is not None and (kind == INTERVAL or (kind == JSONB and name in ("=", "<>"))):
        args = tuple(coerced(scope, side, kind, at) for side in (one, other))
        return Bound(Call(f"{kind.base} {name}", args, BOOLEAN))
    if kind is None or not _comparable(kind, name):
        told = " and ".join(sorted(kind.title for kind in kinds))
        raise scope.refusal(f"comparing {told or 'literals'} is not supported yet", at, _collation_hint(kinds))
    return Bound(_constant_last(name, *(coerced(scope, side, kind, at) for side in (one, other))))


def _filled(name: str, one: Expr, other: Expr) -> Expr | None:
    """Texts of the same length are equal where they look the same; a constant is made such a text."""
    kinds = [kind_of(one), kind_of(other)]
    padded = next(filter(is_padded, kinds), None)
    if padded is None or name not in _EQUALITIES or not set(kinds) <= {padded, UNKNOWN}:
        return None
    sides = [filled(text, padded) if (text := literal_text(side)) is not None else side for side in (one, other)]
    return _constant_last(name, *sides)


def _is_padded_with_text(one: Expr, other: Expr) -> bool:
    """The blanks behind a varchar count for nothing there, those behind a text do; both have one kind here."""
    padded = is_padded(kind_of(one)) or is_padded(kind_of(other))
    return padded and any(is_text(kind_of(side)) and literal_text(side) is None for side in (one, other))


def _unfilled(one: Expr, other: Expr) -> tuple[Expr, Expr]:
    """Otherwise they are compared without their blanks."""
    kinds = kind_of(one), kind_of(other)
    if not any(map(is_padded, kinds)):
        return one, other
    sides = [stripped(text) if (text := literal_text(side)) is not None else side for side in (one, other)]
    return as_unpadded(sides[0], kinds[0]), as_unpadded(sides[1], kinds[1])


def _constant_last(name: str, one: Expr, other: Expr) -> Expr:
    if isinstance(one, Const) and not isinstance(other, Const):
        one, other, name = other, one, _MIRRORED.get(name, name)
    return Call(name, (one, other), BOOLEAN)


def _read_as_numeric(scope: Scope, expr: Expr, at: Span | None) -> Expr:
    """Whole numbers are compared as they are."""
    return expr if is_integer(kind_of(expr)) else coerced(scope, expr, NUMERIC, at)


def _comparable(kind: PostgresKind, name: str) -> bool:
    return kind in PLAIN or (is_plain(kind) and name in _EQUALITIES)


def _collation_hint(kinds: set[PostgresKind]) -> str | None:
    collated = any(is_text(kind) and kind.collation is not None for kind in kinds)
    return 'add COLLATE "C" to compare byte by byte' if collated else None


def identity(scope: Scope, node: exp.Is) -> Bound:
    """IS NULL of anything; IS TRUE and IS FALSE of truths."""
    if isinstance(node.expression, exp.Null):
        arg = bind_expr(scope, node.this).expr
        return Bound(Call("is", (arg, Const(None, None)), BOOLEAN))
    return Bound(Call("is", (condition(scope, node.this), TRUE if node.expression.this else FALSE), BOOLEAN))


def membership(scope: Scope, node: exp.In) -> Bound:
    needle = bind_expr(scope, node.this)
    if node.args.get("query"):
        return clause(scope, node).contains(scope, node, needle)
    at, array = span(node), node.args.get("field")
    if array is not None and not _is_listed(array):
        return Bound(_element(scope, needle.expr, bind_expr(scope, array).expr, at))
    items = node.expressions if array is None else array_items(scope, array)
    bound = [bind_expr(scope, item) for item in items]
    if array is None and _is_rounded(needle.expr, [item.expr for item in bound]):
        raise scope.refusal("IN of numbers and floating-point numbers together is not supported yet", at)
    tests = [compare(scope, "=", needle, item, at).expr for item in bound]
    values = [test.args[1] for test in tests if isinstance(test, Call) and test.name == "="]
    if len(values) == len(tests) and all(isinstance(value, Const) for value in values):
        first = tests[0]
        assert isinstance(first, Call)
        return Bound(Call("in", (first.args[0], *values), BOOLEAN))
    return Bound(_typed(chain("or", tests)))


def _is_rounded(needle: Expr, items: Sequence[Expr]) -> bool:
    """A list of several is compared in one type that all of them have in common: a real meets 0.1 as a real there, and
    as a double where it meets it alone. A double stays one."""
    kinds = {kind_of(each) for each in (needle, *items)} - {UNKNOWN}
    return len(items) > 1 and kind_of(needle) != FLOAT8 and len(kinds) > 1 and not kinds.isdisjoint(REALS)


def _is_listed(array: exp.Expr) -> bool:
    """Whether it stands in the text, element by element."""
    inner = array.this if isinstance(array, exp.Cast) else array
    return isinstance(inner, exp.Array | exp.Placeholder | exp.Literal)


def _element(scope: Scope, needle: Expr, array: Expr, at: Span | None) -> Expr:
    element = element_of(kind_of(array))
    if kind_of(needle) == UNKNOWN and is_array(kind_of(array)):
        needle = coerced(scope, needle, element, at)
    found = elements.membership(needle, array)
    if found is None:
        raise scope.refusal(f"ANY of {kind_of(array).title} is not supported yet", at)
    return found


def array_items(scope: Scope, node: exp.Expr) -> list[exp.Expr]:
    """The elements of a constant array, to be read as those of a list are."""
    inner, at = node.this if isinstance(node, exp.Cast) else node, span(node)
    if isinstance(inner, exp.Array) and inner.expressions:
        return list(inner.expressions)
    constant = scope.params.const(inner).value if isinstance(inner, exp.Placeholder) else inner.name
    texts = (
        items_of(constant) if isinstance(inner, exp.Placeholder | exp.Literal) and isinstance(constant, str) else None
    )
    if not texts:
        raise scope.refusal("ANY of this is not supported yet", at, "give an array that is not empty")
    to = exp.Var(this=node.args["to"].name.removesuffix("[]")) if isinstance(node, exp.Cast) else None
    items: list[exp.Expr] = [exp.Null() if text is None else exp.Literal.string(text) for text in texts]
    return items if to is None else [exp.Cast(this=item, to=to.copy()) for item in items]


def between(scope: Scope, node: exp.Between) -> Bound:
    value, low, high = (bind_expr(scope, node.args[arg]) for arg in ("this", "low", "high"))
    at = span(node)
    bounds = [compare(scope, ">=", value, low, at).expr, compare(scope, "<=", value, high, at).expr]
    return Bound(_typed(chain("and", bounds)))


def _typed(expr: Expr) -> Expr:
    return Call(expr.name, expr.args, BOOLEAN) if isinstance(expr, Call) else expr
