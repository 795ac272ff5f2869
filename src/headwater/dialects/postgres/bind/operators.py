"""PostgreSQL's operators, casts and conditions, a binding rule per kind of syntax node: typed as PostgreSQL types them.

Implicit casts become explicit here, so that whoever evaluates meets one type at a time. What we do not compute exactly
as PostgreSQL does is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from headwater.dialects.postgres.bind import arrays as elements
from headwater.dialects.postgres.bind.json import DOCUMENTS, literal_text, part, question
from headwater.dialects.postgres.bind.signatures import FUNCTIONS, UNITS
from headwater.dialects.postgres.bind.temporal import CASTS, DATED, TIMES, comparable, moved, summed
from headwater.dialects.postgres.literals.array_text import items_of
from headwater.dialects.postgres.literals.regex import CLASSES, spelled_out, translated
from headwater.dialects.postgres.literals.temporal import READ, read
from headwater.dialects.postgres.literals.to_char_format import pieces
from headwater.dialects.postgres.types import numeric as numbers
from headwater.dialects.postgres.types.bpchar import MARK, filled, is_padded, stripped
from headwater.dialects.postgres.types.bpchar import as_text as as_unpadded
from headwater.dialects.postgres.types.kinds import (
    BOOLEAN,
    COMPARISONS,
    DEFAULT,
    INTEGERS,
    PLAIN,
    REALS,
    SPELLINGS,
    common_kind,
    element_of,
    fits,
    is_array,
    is_enum,
    is_integer,
    is_plain,
    is_text,
    kind_of,
    type_of_kind,
    wider,
)
from headwater.dialects.postgres.types.numeric import is_numeric
from headwater.dialects.sqlite.operators import bind_expr, is_aggregate
from headwater.model.value import Type
from headwater.sql.bind.inner_query import clause, existence, scalar
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.conjunction import chain, operands, parts
from headwater.sql.ir.expr import Call, Case, Cast, Const, Expr
from headwater.sql.ir.walk import references
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.span import Span, span

TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is",
    exp.NullSafeNEQ: "isnot",
}
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
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = ("=", "<>", "is", "isnot")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_TRUTHS = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
_TOLD = ("uuid", *REALS, *TIMES)  # `||` and concat() write them as a cast to text does
_CASTS = {
    ("bool", "int4"),
    ("int4", "bool"),
    ("bool", "text"),
    ("float8", "int2"),
    ("float8", "int4"),
    ("float8", "int8"),
    ("float8", "text"),
    *(("float4", kind) for kind in (*INTEGERS, "float8", "text")),
    *((kind, "text") for kind in (*INTEGERS, "uuid")),
    *(("text", kind) for kind in (*INTEGERS, "float8", "bool", "uuid")),
    *((kind, "text") for kind in ("bytea", *DOCUMENTS)),
    *CASTS,
    *((kind, "float8") for kind in INTEGERS),
    *((one, other) for one in INTEGERS for other in INTEGERS),
}


def bind(scope: Scope, node: exp.Expr) -> Bound:
    rule = RULES.get(type(node))
    if rule is None:
        raise scope.refusal(f"{type(node).__name__} is not supported yet", span(node))
    bound = rule(scope, node)
    if not isinstance(bound.expr, Call | Case) or next(references(bound.expr), None) is not None:
        return bound
    if isinstance(bound.expr, Call) and bound.expr.name in COMPARISONS:
        return Bound(Cast(bound.expr, "bool", BOOLEAN))  # which says whose truth it is, and cannot fail
    raise scope.refusal("a constant that must be computed is not supported yet", span(node), "write its value")


# Types that meet


def coerced(scope: Scope, expr: Expr, kind: str, at: Span | None) -> Expr:
    """As PostgreSQL casts by itself; a literal or parameter is read by the type that is wanted."""
    own = kind_of(expr)
    if expr == Const(None, None):
        return Const(None, type_of_kind(kind)) if kind != "unknown" else expr
    if own == "unknown":
        return _read(scope, expr, kind, at)
    if own == kind or (is_integer(own) and is_integer(kind)) or (is_text(own) and is_text(kind)):
        return expr
    if kind == "float8" and is_integer(own):
        constant = isinstance(expr, Const) and isinstance(expr.value, int)
        return Const(float(expr.value), Type.REAL) if constant else Cast(expr, "float8", Type.REAL)  # type: ignore[union-attr, arg-type]
    if own in DATED and kind in DATED and DATED.index(own) < DATED.index(kind):
        return moved(expr, kind)
    if is_numeric(own) or is_numeric(kind):
        return _converted(scope, expr, own, kind, at)
    raise scope.refusal(f"{_title(own)} as {_title(kind)} is not supported yet", at, "CAST it")


def _converted(scope: Scope, expr: Expr, own: str, kind: str, at: Span | None) -> Expr:
    """From and to numeric, as PostgreSQL does unasked."""
    if is_numeric(own) and (kind == "float8" or is_numeric(kind)):
        return expr if kind != "float8" else _as_real(scope, expr, at)
    if not is_integer(own) or not is_numeric(kind):
        raise scope.refusal(f"{_title(own)} as {_title(kind)} is not supported yet", at, "CAST it")
    known = numbers.literal(str(expr.value)) if isinstance(expr, Const) and expr.value is not None else None
    return known or Cast(expr, numbers.scaled(0), Type.NUMERIC)


def _as_real(scope: Scope, expr: Expr, at: Span | None) -> Expr:
    if isinstance(expr, Cast) and isinstance(expr.arg, Const) and isinstance(expr.arg.value, str):
        return _real(scope, expr.arg.value, at)
    return Cast(expr, "float8", Type.REAL)


def _read(scope: Scope, expr: Expr, kind: str, at: Span | None) -> Expr:
    """The text of a literal by the rules of a type."""
    assert isinstance(expr, Cast)
    assert isinstance(expr.arg, Const)
    text = str(expr.arg.value)
    if text.startswith(MARK) or is_text(kind) or is_enum(kind):
        return Const(text, Type.TEXT)
    if is_integer(kind) and _INTEGER.fullmatch(text) and fits(int(text), kind):
        return Const(int(text), Type.INTEGER)
    if kind == "float8" and _FLOAT.fullmatch(text):
        return _real(scope, text, at)
    if is_numeric(kind) and (number := numbers.literal(text)) is not None:
        return number
    if kind == "bool" and text.strip().lower() in _TRUTHS:
        return Const(_TRUTHS[text.strip().lower()], BOOLEAN)
    if kind in READ and (value := read(text, kind)) is not None:
        return Const(value, type_of_kind(kind))
    if is_array(kind) and (array := _read_array(scope, text, kind, at)) is not None:
        return array
    if kind == "unknown":
        return expr
    raise scope.refusal(f"'{text}' as {_title(kind)} is not supported yet", at)


def _read_array(scope: Scope, text: str, kind: str, at: Span | None) -> Expr | None:
    element = element_of(kind)
    return elements.read(text, kind, lambda item: _read(scope, _unknown(item), element, at))


def _unknown(text: str) -> Expr:
    return Cast(Const(text, Type.TEXT), "unknown", Type.TEXT)


def _real(scope: Scope, text: str, at: Span | None) -> Const:
    value = float(text)
    if value in (float("inf"), float("-inf")) or (value == 0 and re.search("[1-9]", re.split("[eE]", text)[0])):
        raise scope.refusal(f"{text} is out of range for double precision", at)
    return Const(value, Type.REAL)


def settled(expr: Expr) -> Expr:
    """A literal that met nothing is text."""
    if kind_of(expr) == "unknown" and isinstance(expr, Cast) and isinstance(expr.arg, Const):
        return Const(expr.arg.value, Type.TEXT)
    return expr


def alike(scope: Scope, exprs: Sequence[Expr], at: Span | None) -> list[Expr]:
    """Branches of one type: as CASE, COALESCE and their like want them."""
    kinds = {kind_of(expr) for expr in exprs} - {"unknown"}
    kind = common_kind(exprs)
    if kind is None and kinds and all(map(_is_number, kinds)):
        kind = "float8" if "float8" in kinds else "numeric"
    if kind is None and kinds:
        raise scope.refusal(f"{' and '.join(sorted(map(_title, kinds)))} as one type is not supported yet", at)
    if (kind or "").startswith("other "):
        raise scope.refusal(f"computing with {_title(kind or '')} is not supported yet", at)
    return [coerced(scope, expr, kind or "text", at) for expr in exprs]


def _widened(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """A `real` meets other numbers as a double. With its own kind alone it stays what it is."""
    kinds = {kind_of(left), kind_of(right)} - {"float4", "unknown"}
    if not kinds or not all(map(_is_number, kinds)):
        return left, right
    one, other = (Cast(side, "float8", Type.REAL) if kind_of(side) == "float4" else side for side in (left, right))
    return one, other


def _is_number(kind: str) -> bool:
    return is_integer(kind) or is_numeric(kind) or kind == "float8"


def _title(kind: str) -> str:
    return "numeric" if is_numeric(kind) else kind.removeprefix("other ").removeprefix("enum ")


# Operands


def column(scope: Scope, node: exp.Column) -> Bound:
    meant = scope.alias(node)
    return bind_expr(scope, node.replace(meant.copy())) if meant is not None else scope.resolve(node)


def literal(scope: Scope, node: exp.Literal) -> Bound:
    if node.is_string:
        return Bound(_unknown(node.name))
    return _number(node.name)


def _number(text: str) -> Bound:
    """A sign before a number is part of it: -2147483648 still has four bytes."""
    if _INTEGER.fullmatch(text) and fits(int(text), "int8"):
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
    return Bound(constant if constant.value is None else Cast(constant, "unknown", Type.TEXT))


# Arithmetic


def negative(scope: Scope, node: exp.Neg) -> Bound:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.name}")
    arg = bind_expr(scope, node.this).expr
    kind = kind_of(arg)
    if not _is_number(kind) and kind != "interval":
        raise scope.refusal(f"the negative of {_title(kind)} is not supported yet", span(node))
    return Bound(Call(f"{_base(kind)} neg", (arg,), type_of_kind(kind)))


def positive(scope: Scope, node: Plus) -> Bound:
    arg = bind_expr(scope, node.this)
    if not _is_number(kind_of(arg.expr)):
        raise scope.refusal("a plus before what is no number is not supported", span(node))
    return arg


def arithmetic(scope: Scope, node: exp.Binary) -> Bound:
    left, right = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    return Bound(computed(scope, _ARITHMETIC[type(node)], left, right, span(node)))


def computed(scope: Scope, sign: str, left: Expr, right: Expr, at: Span | None) -> Expr:
    left, right = _widened(left, right)
    kinds = {kind_of(side) for side in (left, right)} - {"unknown"}
    if (moment := summed(sign, left, right)) is not None:
        return moment
    if kinds and kinds <= {*INTEGERS}:
        kind = wider(kinds)
    elif kinds and all(map(_is_number, kinds)) and ("float8" not in kinds or sign != "%"):
        kind = "float8" if "float8" in kinds else "numeric"
    else:
        told = " and ".join(sorted(map(_title, kinds))) or "two literals"
        raise scope.refusal(f"{sign} of {told} is not supported yet", at, "the origin computes it")
    args = tuple(coerced(scope, side, kind, at) for side in (left, right))
    return Call(f"{kind} {sign}", args, type_of_kind(kind))


def concatenated(scope: Scope, node: exp.DPipe) -> Bound:
    sides = [bind_expr(scope, side).expr for side in (node.this, node.expression)]
    if not any(is_text(kind_of(side)) for side in sides):
        raise scope.refusal("|| without a text is not supported yet", span(node), "CAST to text")
    return Bound(Call("text ||", tuple(as_text(scope, side, span(node)) for side in sides), Type.TEXT))


def as_text(scope: Scope, expr: Expr, at: Span | None) -> Expr:
    kind = kind_of(expr)
    if is_numeric(kind) or ((is_integer(kind) or kind in _TOLD) and not isinstance(expr, Const)):
        return Cast(expr, DEFAULT, Type.TEXT)
    if isinstance(expr, Const) and isinstance(expr.value, int) and is_integer(kind):
        return Const(str(expr.value), Type.TEXT)
    return coerced(scope, expr, "text", at)


# Conditions


def condition(scope: Scope, node: exp.Expr) -> Expr:
    expr = bind_expr(scope, node).expr
    return coerced(scope, expr, "bool", span(node))


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
    return compare(scope, _SIGNS[type(node)], left, right, span(node))


def compare(scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
    """A constant ends up on the right. Doubles are compared by their own: NaN equals itself and is the largest."""
    if (padded := _filled(name, left.expr, right.expr)) is not None:
        return Bound(padded)
    one, other = elements.alike(*_widened(*_unfilled(left.expr, right.expr)))
    kinds = {kind_of(one), kind_of(other)} - {"unknown"}
    if kind_of(one) == kind_of(other) == "float4":
        return Bound(Call(f"float8 {name}", (one, other), BOOLEAN))
    if any(map(is_numeric, kinds)) and all(map(_is_number, kinds)) and "float8" not in kinds:
        one, other = (numbers.compared(_read_as_numeric(scope, side, at)) for side in (one, other))
        return Bound(_constant_last(name, one, other))
    if "float8" in kinds and all(map(_is_number, kinds)):
        args = tuple(coerced(scope, side, "float8", at) for side in (one, other))
        return Bound(Call(f"float8 {name}", args, BOOLEAN))
    if (moments := comparable(one, other)) is not None:
        return Bound(_constant_last(name, *moments))
    kind = common_kind([one, other])
    if kind == "interval" or (kind == "jsonb" and name in ("=", "<>")):
        args = tuple(coerced(scope, side, kind, at) for side in (one, other))
        return Bound(Call(f"{kind} {name}", args, BOOLEAN))
    if kind is None or not _comparable(kind, name):
        told = " and ".join(sorted(map(_title, kinds)))
        raise scope.refusal(f"comparing {told or 'literals'} is not supported yet", at, _collation_hint(kinds))
    return Bound(_constant_last(name, *(coerced(scope, side, kind, at) for side in (one, other))))


def _filled(name: str, one: Expr, other: Expr) -> Expr | None:
    """Texts of the same length are equal where they look the same; a constant is made such a text."""
    kinds = [kind_of(one), kind_of(other)]
    padded = next(filter(is_padded, kinds), None)
    if padded is None or name not in _EQUALITIES or not set(kinds) <= {padded, "unknown"}:
        return None
    sides = [filled(text, padded) if (text := literal_text(side)) is not None else side for side in (one, other)]
    return _constant_last(name, *sides)


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
    return expr if is_integer(kind_of(expr)) else coerced(scope, expr, "numeric", at)


def _comparable(kind: str, name: str) -> bool:
    return kind in PLAIN or (is_plain(kind) and name in _EQUALITIES)


def _collation_hint(kinds: set[str]) -> str | None:
    collated = any(kind.startswith("text collate") for kind in kinds)
    return 'add COLLATE "C" to compare byte by byte' if collated else None


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
    if sign != "?" and "jsonb" in (kind_of(one), kind_of(other)):
        one, other = (coerced(scope, side, "jsonb", span(node)) for side in (one, other))
    array = next(filter(is_array, (kind_of(one), kind_of(other))), None)
    if array is not None:
        one, other = (coerced(scope, side, array, span(node)) for side in elements.alike(one, other))
    found = question(sign, one, other) if array is None else elements.question(sign, one, other)
    if found is None:
        raise scope.refusal(f"{sign} of {_title(kind_of(one))} is not supported yet", span(node))
    return Bound(found)


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
    tests = [compare(scope, "=", needle, bind_expr(scope, item), at).expr for item in items]
    values = [test.args[1] for test in tests if isinstance(test, Call) and test.name == "="]
    if len(values) == len(tests) and all(isinstance(value, Const) for value in values):
        first = tests[0]
        assert isinstance(first, Call)
        return Bound(Call("in", (first.args[0], *values), BOOLEAN))
    return Bound(_typed(chain("or", tests)))


def _is_listed(array: exp.Expr) -> bool:
    """Whether it stands in the text, element by element."""
    inner = array.this if isinstance(array, exp.Cast) else array
    return isinstance(inner, exp.Array | exp.Placeholder | exp.Literal)


def _element(scope: Scope, needle: Expr, array: Expr, at: Span | None) -> Expr:
    element = element_of(kind_of(array))
    if kind_of(needle) == "unknown" and is_array(kind_of(array)):
        needle = coerced(scope, needle, element, at)
    found = elements.membership(needle, array)
    if found is None:
        raise scope.refusal(f"ANY of {_title(kind_of(array))} is not supported yet", at)
    return found


def array(scope: Scope, node: exp.Array) -> Bound:
    """Of constants."""
    items = alike(scope, [bind_expr(scope, item).expr for item in node.expressions], span(node))
    found = elements.constant(items, common_kind(items) or "text") if items else None
    if found is None:
        raise scope.refusal("this array is not supported yet", span(node), "write it as a text: '{1,2}'")
    return Bound(found)


def subscripted(scope: Scope, node: exp.Bracket) -> Bound:
    one, place = (bind_expr(scope, each).expr for each in (node.this, *node.expressions))
    found = elements.subscript(one, place)
    if found is None:
        raise scope.refusal(f"an element of {_title(kind_of(one))} is not supported yet", span(node))
    return Bound(found)


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


def like(scope: Scope, node: exp.Expr, escape: exp.Expr | None = None) -> Bound:
    value, pattern = (bind_expr(scope, side).expr for side in (node.this, node.expression))
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    value = coerced(scope, value, "text", span(node))
    if not is_text(kind_of(value)) or (name == "ilike" and kind_of(value) != "text"):
        raise scope.refusal(f"{name.upper()} of {_title(kind_of(value))} is not supported yet", span(node))
    escapes = [_constant_text(scope, each, span(node)) for each in _escape(scope, escape)]
    if isinstance(settled(pattern), Const):
        pattern = _constant_text(scope, pattern, span(node))
        check_pattern(scope, *(str(each.value) for each in (pattern, *escapes)), at=span(node))
    elif common_kind([value, pattern]) is None or not is_text(kind_of(pattern)):
        raise scope.refusal(f"a pattern of {_title(kind_of(pattern))} is not supported yet", span(node))
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
    if known is None or not (kind_of(value) == "text" or (is_text(kind_of(value)) and plain)):
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


# Casts, CASE, subqueries


def collate(scope: Scope, node: exp.Collate) -> Bound:
    arg = settled(bind_expr(scope, node.this).expr)
    if node.expression.name not in ("C", "POSIX") or not is_text(kind_of(arg)):
        raise scope.refusal(f"the collation {node.expression.name} is not supported yet", span(node), 'use "C"')
    return Bound(arg if kind_of(arg) == "text" else Cast(arg, "text", Type.TEXT))


def cast(scope: Scope, node: exp.Cast) -> Bound:
    arg, wanted = bind_expr(scope, node.this).expr, SPELLINGS.get(node.args["to"].name)
    kind, at = kind_of(arg), span(node)
    if wanted is None and numbers.is_declarable(node.args["to"].name):
        return Bound(_as_declared(scope, arg, node.args["to"].name, at))
    if wanted is None:
        raise scope.refusal(f"the type {node.args['to'].name} is not supported yet", at)
    if is_numeric(kind) and wanted in (*INTEGERS, "float8", "text") and not numbers.is_literal(arg):
        return Bound(_cast_to(arg, wanted))
    if kind == "unknown" or numbers.is_literal(arg) or arg == Const(None, None):
        constant = _read(scope, arg, wanted, at) if isinstance(arg, Cast) else coerced(scope, arg, wanted, at)
        return Bound(_cast_constant(constant, wanted))
    if kind == wanted or (is_text(kind) and wanted == "text"):
        return Bound(arg)
    if is_padded(kind) and wanted == "text":
        return Bound(as_unpadded(arg, kind))
    readable = kind.startswith(("other ", "enum ")) and wanted == "text" and arg.type is Type.TEXT
    if (kind.partition(" ")[0], wanted) not in _CASTS and not readable:
        raise scope.refusal(f"CAST of {_title(kind)} to {wanted} is not supported yet", at)
    if wanted in DATED:
        return Bound(moved(arg, wanted))
    return Bound(_cast_to(arg, wanted))


def _cast_to(arg: Expr, kind: str) -> Expr:
    return Cast(arg, DEFAULT if kind == "text" else kind, type_of_kind(kind))


def zoned(scope: Scope, node: exp.AtTimeZone) -> Bound:
    """Other zones have rules that change from release to release."""
    arg, zone = (bind_expr(scope, side).expr for side in (node.this, node.args["zone"]))
    other = {"timestamp": "timestamptz", "timestamptz": "timestamp"}.get(kind_of(arg))
    if other is None or literal_text(zone) != "UTC":
        raise scope.refusal("a time zone but 'UTC' is not supported yet", span(node))
    return Bound(moved(arg, other))


def _as_declared(scope: Scope, arg: Expr, declared: str, at: Span | None) -> Expr:
    """As numeric, and then with the precision and scale that are wanted."""
    if kind_of(arg) in REALS:
        number: Expr = Cast(arg, "numeric", Type.NUMERIC)
    else:
        number = coerced(scope, arg, "numeric", at)
    name = numbers.modifier(declared)
    return number if name is None else Call(name, (number,), Type.NUMERIC)


def _cast_constant(expr: Expr, kind: str) -> Expr:
    return expr if kind_of(expr) == kind else Cast(expr, kind, type_of_kind(kind))


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
    kind = common_kind([*thens, default]) or "text"
    return Bound(Case(tuple(zip(whens, thens, strict=True)), default, type_of_kind(kind)))


def call(scope: Scope, node: exp.Anonymous) -> Bound:
    if scope.clause is not None and is_aggregate(node):
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
            return Call(signature.name, fitted, type_of_kind(signature.gives))
    told = ", ".join(_title(kind_of(arg)) for arg in args)
    raise scope.refusal(f"the function {node.name}({told}) is not supported yet", span(node), "the origin computes it")


def _fitted(scope: Scope, arg: Expr, kind: str, at: Span | None) -> Expr:
    return arg if kind.startswith("array") else coerced(scope, arg, _plain(kind), at)


def _fits(arg: Expr, kind: str) -> bool:
    """`text!` takes only text whose letters are those of the collation C. A literal is taken for text alone: what else
    it might be, depends on functions of that name that we do not know. A unit is such a literal."""
    own = kind_of(arg)
    if kind in UNITS:
        return literal_text(arg) in UNITS[kind]
    if kind == "format":
        return (text := literal_text(arg)) is not None and pieces(text) is not None
    if kind.startswith("array"):
        return is_array(own) and (kind == "array" or is_text(element_of(own)))
    if own == "unknown":
        return _plain(kind) == "text"
    if kind == "timestamptz":
        return own in ("timestamptz", "date")
    if kind == "text":
        return is_text(own)
    if kind == "int4":
        return own in ("int2", "int4")
    if kind == "float8":
        return own == "float8" or is_integer(own)
    if kind == "numeric":
        return is_numeric(own) or is_integer(own)
    return own == _plain(kind) or (kind == "int8" and is_integer(own))


def _plain(kind: str) -> str:
    """As the type of an argument."""
    return "text" if kind in UNITS or kind == "format" else kind.rstrip("!")


def _base(kind: str) -> str:
    return kind.partition(" ")[0]


def _coalesced(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    branches = alike(scope, args, span(node))
    return Call("coalesce", tuple(branches), type_of_kind(common_kind(branches) or "text"))


def _nullif(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    one, other = args
    equal = compare(scope, "=", Bound(one), Bound(other), span(node)).expr
    kind = kind_of(one)
    if kind == "unknown" or numbers.is_literal(one):
        raise scope.refusal("nullif() of a constant is not supported yet", span(node))
    return Case(((equal, Const(None, one.type)),), one, one.type)


def _extreme(scope: Scope, node: exp.Anonymous, args: list[Expr]) -> Expr:
    """NULLs are left out. Doubles have an order of their own."""
    branches = alike(scope, args, span(node))
    kind = common_kind(branches) or "text"
    if kind not in PLAIN - {"bool"} and not is_numeric(kind):
        raise scope.refusal(f"{node.name}() of {_title(kind)} is not supported yet", span(node))
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
    **dict.fromkeys(_SIGNS, comparison),
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
