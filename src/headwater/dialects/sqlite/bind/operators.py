"""Operators, functions and literals, one binding rule per kind of syntax node: names, types and collations resolved.

Constants meet columns here: SQLite's comparison affinity is applied to them once, so that nobody does it per row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from headwater.dialects.sqlite import affinity as types
from headwater.dialects.sqlite import literals as literal
from headwater.dialects.sqlite.affinity import Affinity
from headwater.dialects.sqlite.bind.columns import FALSE, TRUE, boolean, column, so_named, volatile
from headwater.dialects.sqlite.bind.text_growth import GROWING, grows_too_long
from headwater.dialects.sqlite.functions import VOLATILE, WINDOWS, Function, available, known
from headwater.model.value import Type, type_of
from headwater.sql.bind.expression import bind_expr, clause, compare, existence, is_aggregate, scalar
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.collation import COLLATIONS, Collating, carried, compared, first_named
from headwater.sql.ir.common_type import common_type
from headwater.sql.ir.conjunction import chain, operands, parts
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.span import Span, span
from headwater.sql.syntax.suggestions import did_you_mean

NULL = Const(None, None)

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_INTEGERS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_CONNECTORS: dict[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Is: "is",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"in": "notin", "between": "notbetween", "like": "notlike", "is": "isnot"}


def bind_as_sqlite(scope: Scope, node: exp.Expr) -> Bound:
    return _RULES[type(node)](scope, node)


def number_or_text(scope: Scope, node: exp.Literal) -> Bound:
    if node.is_string:
        return Bound(Const(node.name, Type.TEXT))
    return _number(scope, node, node.name)


def _number(scope: Scope, node: exp.Expr, text: str) -> Bound:
    try:
        value = literal.read_number(text)
    except sqlite3.Error as error:
        raise scope.error(str(error), span(node)) from None
    return Bound(Const(value, type_of(value)))


def blob(scope: Scope, node: exp.HexString) -> Bound:
    digits = node.name
    if len(digits) % 2 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise scope.error("a blob is x'…' with an even number of hexadecimal digits", span(node))
    return Bound(Const(bytes.fromhex(digits), Type.BLOB))


def null(scope: Scope, node: exp.Null) -> Bound:
    return Bound(NULL)


def placeholder(scope: Scope, node: exp.Placeholder) -> Bound:
    return Bound(scope.params.const(node))


def negative(scope: Scope, node: exp.Neg) -> Bound:
    """A negated number is one constant; -9223372036854775808 exists only so."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(scope, node, f"-{node.this.name}")
    arg = bind_expr(scope, node.this)
    if isinstance(arg.expr, Const) and isinstance(arg.expr.value, int | float):
        value = literal.evaluate(f"-({literal.write(arg.expr.value)})")
        return Bound(Const(value, type_of(value)), carried([arg.collating]))
    return _operation("neg", types.negation_type(arg.expr.type), arg)


def positive(scope: Scope, node: Plus) -> Bound:
    """Only columns and casts have an affinity to lose. A collation passes through."""
    arg = bind_expr(scope, node.this)
    if not isinstance(arg.expr, ColumnRef | Cast):
        return arg
    return Bound(Call("pos", (arg.expr,), arg.expr.type), arg.collating)


def inverted(scope: Scope, node: exp.BitwiseNot) -> Bound:
    return _operation("~", Type.INTEGER, bind_expr(scope, node.this))


def concatenated(scope: Scope, node: exp.DPipe) -> Bound:
    return _operation("||", Type.TEXT, *_both(scope, node))


def arithmetic(scope: Scope, node: exp.Binary) -> Bound:
    left, right = _both(scope, node)
    return _operation(_ARITHMETIC[type(node)], types.arithmetic_type(left.expr.type, right.expr.type), left, right)


def integer_operation(scope: Scope, node: exp.Binary) -> Bound:
    return _operation(_INTEGERS[type(node)], Type.INTEGER, *_both(scope, node))


def connection(scope: Scope, node: exp.Connector) -> Bound:
    name, args = _CONNECTORS[type(node)], [bind_expr(scope, part) for part in operands(node, type(node))]
    flat = [part for arg in args for part in parts(name, arg.expr)]
    return Bound(chain(name, flat), carried(arg.collating for arg in args))


def negation(scope: Scope, node: exp.Not) -> Bound:
    arg = bind_expr(scope, node.this)
    return Bound(_not(arg.expr), carried([arg.collating]))


def _not(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.name in _NEGATED:
        return Call(_NEGATED[expr.name], expr.args, expr.type, expr.collation)
    return Call("not", (expr,), Type.INTEGER)


def comparison(scope: Scope, node: exp.Binary) -> Bound:
    left, right = _both(scope, node)
    return compare(scope, _COMPARISONS[type(node)], left, right, span(node))


def identity(scope: Scope, node: exp.Is) -> Bound:
    """`x IS TRUE` asks whether x is true, not whether it is 1."""
    right = node.expression
    if not isinstance(right, exp.Boolean) or so_named(scope, right):
        return comparison(scope, node)
    arg = bind_expr(scope, node.this)
    condition = arg.expr if node.expression.this else _not(arg.expr)
    return Bound(Case(((condition, TRUE),), FALSE, Type.INTEGER), carried([arg.collating]))


def compare_as_sqlite(scope: Scope, name: str, left: Bound, right: Bound, at: Span | None) -> Bound:
    """A constant ends up on the right, with the affinity of the other side."""
    collation = _collation(scope, compared(left.collating, right.collating), at)
    affinity = types.comparison_affinity(types.affinity(left.expr), types.affinity(right.expr))
    args = (
        _stripped(_converted(left.expr, affinity), right.expr),
        _stripped(_converted(right.expr, affinity), left.expr),
    )
    if isinstance(args[0], Const) and not isinstance(args[1], Const):
        args, name = (args[1], args[0]), _MIRRORED.get(name, name)
    return Bound(Call(name, args, Type.INTEGER, collation), carried([left.collating, right.collating]))


def membership(scope: Scope, node: exp.In) -> Bound:
    """The left side's affinity and collation rule alone. `x IN ()` is allowed by SQLite, and false."""
    needle = bind_expr(scope, node.this)
    if node.args.get("query"):
        return clause(scope, node).contains(scope, node, needle)
    if not node.expressions:
        return Bound(FALSE, carried([needle.collating]))
    items = [bind_expr(scope, item) for item in node.expressions]
    if any(item.collating.explicit for item in items):
        raise scope.refusal("COLLATE inside an IN list is not supported", span(node), "put it on the left side of IN")
    affinity = types.affinity(needle.expr)
    args = (needle.expr, *(_converted(item.expr, affinity) for item in items))
    collation = _collation(scope, needle.collating, span(node))
    return Bound(Call("in", args, Type.INTEGER, collation), carried([needle.collating]))


def between(scope: Scope, node: exp.Between) -> Bound:
    """Two comparisons: kept as one call while they use the same collation."""
    value, low, high = (bind_expr(scope, node.args[arg]) for arg in ("this", "low", "high"))
    at = span(node)
    least, most = compare(scope, ">=", value, low, at), compare(scope, "<=", value, high, at)
    all_carried = carried([value.collating, low.collating, high.collating])
    collations = [_collation(scope, compared(value.collating, bound.collating), at) for bound in (low, high)]
    if collations[0] != collations[1]:
        return Bound(Call("and", (least.expr, most.expr), Type.INTEGER), all_carried)
    bounds = [_converted(bound.expr, types.affinity(value.expr)) for bound in (low, high)]
    asked = next(
        (_stripped(value.expr, bound) for bound in bounds if types.affinity(bound) is Affinity.TEXT), value.expr
    )
    return Bound(Call("between", (asked, *bounds), Type.INTEGER, collations[0]), all_carried)


def like(scope: Scope, node: exp.Like) -> Bound:
    return _match(scope, "like", node.expression, node.this)


def escaped(scope: Scope, node: exp.Escape) -> Bound:
    return _match(scope, "like", node.this.expression, node.this.this, node.expression)


def glob(scope: Scope, node: exp.Glob) -> Bound:
    return _match(scope, "glob", node.expression, node.this)


def _match(scope: Scope, name: str, pattern: exp.Expr, value: exp.Expr, *escape: exp.Expr) -> Bound:
    """SQLite's function takes the pattern first, our call the value."""
    args = [bind_expr(scope, arg) for arg in (pattern, value, *escape)]
    for arg, node in zip(args[2:], escape, strict=True):
        _check_escape(scope, arg.expr, node)
    order = (args[1].expr, args[0].expr, *(arg.expr for arg in args[2:]))
    return Bound(Call(name, order, Type.INTEGER), carried(arg.collating for arg in args))


def _check_escape(scope: Scope, expr: Expr, node: exp.Expr) -> None:
    """A wrong one fails only for the rows SQLite happens to look at, so it must be known now."""
    if not isinstance(expr, Const) or not isinstance(expr.value, str):
        raise scope.refusal("ESCAPE takes a constant text", span(node), "write ESCAPE '\\'")
    if len(expr.value) != 1:
        raise scope.error("ESCAPE takes a single character", span(node))


def collate(scope: Scope, node: exp.Collate) -> Bound:
    arg, name = bind_expr(scope, node.this), node.expression.name.upper()
    if name == "RTRIM":
        raise scope.refusal("COLLATE RTRIM is not supported yet", span(node.expression), "compare rtrim(…) instead")
    if name not in COLLATIONS:
        hint = did_you_mean(name, COLLATIONS, "BINARY and NOCASE are known")
        raise scope.error(f"no such collation: {node.expression.name}", span(node.expression), hint)
    return Bound(arg.expr, Collating(name, explicit=True))


def cast(scope: Scope, node: exp.Cast) -> Bound:
    arg = bind_expr(scope, node.this)
    affinity = types.declared_affinity(node.args["to"].name)
    return Bound(Cast(arg.expr, affinity, types.cast_type(arg.expr.type, affinity)), arg.collating)


def case(scope: Scope, node: exp.Case) -> Bound:
    base = bind_expr(scope, node.this) if node.this else None
    conditions = [bind_expr(scope, when.this) for when in node.args["ifs"]]
    results = [bind_expr(scope, when.args["true"]) for when in node.args["ifs"]]
    default = bind_expr(scope, node.args["default"]) if node.args.get("default") else Bound(NULL)
    pairs = zip(conditions, results, strict=True)
    inside = [*([base] if base else []), *(bound for pair in pairs for bound in pair), default]
    if base is not None:
        conditions = [compare(scope, "=", base, when, span(node)) for when in conditions]
    return Bound(_cases(conditions, results, default), carried(bound.collating for bound in inside))


def _cases(conditions: Sequence[Bound], results: Sequence[Bound], default: Bound) -> Case:
    whens = tuple((condition.expr, result.expr) for condition, result in zip(conditions, results, strict=True))
    return Case(whens, default.expr, common_type([*(then.type for _, then in whens), default.expr.type]))


def call(scope: Scope, node: exp.Anonymous) -> Bound:
    if scope.clause is not None and is_aggregate(scope.dialect, node):
        return scope.clause.aggregate(scope, node)
    function = _function(scope, node)
    if function.name in ("like", "glob"):
        return _match(scope, function.name, node.expressions[0], node.expressions[1], *node.expressions[2:])
    args = [bind_expr(scope, arg) for arg in node.expressions]
    all_carried = carried(arg.collating for arg in args)
    if function.name in GROWING and (hint := grows_too_long(function.name, [arg.expr for arg in args])):
        raise scope.refusal(f"{function.name}() may make a value of any length", span(node), hint)
    if function.name == "iif":
        return Bound(_cases(args[:1], args[1:2], args[2]), all_carried)
    name = "coalesce" if function.name == "ifnull" else function.name
    collation = (
        _collation(scope, first_named(arg.collating for arg in args), span(node)) if function.collates else "BINARY"
    )
    result = function.type(tuple(arg.expr.type for arg in args))
    return Bound(Call(name, tuple(arg.expr for arg in args), result, collation), all_carried)


def _function(scope: Scope, node: exp.Anonymous) -> Function:
    name, count, at = node.name.lower(), len(node.expressions), node.meta.get("name")
    if name in WINDOWS:
        raise scope.refusal(
            f"the window function {name}() is not supported yet", span(node), "ask for the rows themselves"
        )
    if node.args.get("filter"):
        raise scope.error(f"FILTER may not be used with {name}()", span(node), "only aggregates take it")
    if name in VOLATILE:
        raise volatile(scope, f"{name}()", span(node))
    function = known().get(name)
    if function is None:
        raise _unknown_function(scope, name, at)
    starred = any(isinstance(arg, exp.Star) for arg in node.expressions)
    if starred or not function.least <= count <= function.most:
        raise scope.error(f"{name}() takes {function.arity}, found {'*' if starred else count}", span(node))
    return function


def _unknown_function(scope: Scope, name: str, at: Span | None) -> Exception:
    if name in available():
        return scope.refusal(f"the function {name}() is not supported yet", at, "compute it in the application")
    return scope.error(f"no such function: {name}", at, did_you_mean(name, known()))


def _both(scope: Scope, node: exp.Binary) -> tuple[Bound, Bound]:
    return bind_expr(scope, node.this), bind_expr(scope, node.expression)


def _operation(name: str, type: Type | None, *args: Bound) -> Bound:
    return Bound(Call(name, tuple(arg.expr for arg in args), type), carried(arg.collating for arg in args))


def _converted(expr: Expr, affinity: Affinity | None) -> Expr:
    if not isinstance(expr, Const) or affinity is None:
        return expr
    value = literal.with_affinity(expr.value, affinity)
    return Const(value, type_of(value))


def _stripped(expr: Expr, other: Expr) -> Expr:
    """A computed column has no affinity at all: that tells beside one that would make text of it."""
    if isinstance(expr, ColumnRef) and types.affinity(expr) is None and types.affinity(other) is Affinity.TEXT:
        return Call("pos", (expr,), expr.type)
    return expr


def _collation(scope: Scope, collating: Collating, at: Span | None) -> str:
    name = collating.name or "BINARY"
    if name not in COLLATIONS:
        raise scope.refusal(f"the collation {name} is not supported yet", at, "add COLLATE BINARY or COLLATE NOCASE")
    return name


_RULES: dict[type[exp.Expr], Callable[[Scope, Any], Bound]] = {
    exp.Column: column,
    exp.Literal: number_or_text,
    exp.HexString: blob,
    exp.Null: null,
    exp.Boolean: boolean,
    exp.Placeholder: placeholder,
    exp.Neg: negative,
    Plus: positive,
    exp.BitwiseNot: inverted,
    exp.DPipe: concatenated,
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys(_INTEGERS, integer_operation),
    **dict.fromkeys(_CONNECTORS, connection),
    **dict.fromkeys(_COMPARISONS, comparison),
    exp.Is: identity,
    exp.Not: negation,
    exp.In: membership,
    exp.Between: between,
    exp.Like: like,
    exp.Escape: escaped,
    exp.Glob: glob,
    exp.Collate: collate,
    exp.Cast: cast,
    exp.Case: case,
    exp.Anonymous: call,
    exp.Subquery: scalar,
    exp.Exists: existence,
}
