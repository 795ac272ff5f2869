"""A bound expression as canonical text: expressions with one text are one expression.

COLLATE is added only where the plain text would compare otherwise than the bound call says. A dialect that runs the
text gives its own literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from headwater.model.value import Value, type_of
from headwater.sql.ir.collation import NEUTRAL, Collating, carried, compared, first_named
from headwater.sql.ir.constant_text import LITERALS, literal_text
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr, OrderKey, Output
from headwater.sql.ir.identifier import quote

_INFIX = {
    **{sign: sign for sign in ("+", "-", "*", "/", "%", "||", "&", "|", "<<", ">>")},
    "and": "AND",
    "or": "OR",
}
_COMPARISONS = {**{sign: sign for sign in ("=", "<>", "<", "<=", ">", ">=")}, "is": "IS", "isnot": "IS NOT"}
_PREFIX = {"neg": "-", "pos": "+", "~": "~", "not": "NOT "}
_MATCHES = {"like": "LIKE", "notlike": "NOT LIKE", "glob": "GLOB"}
_COLLATING_FUNCTIONS = frozenset({"min", "max", "nullif"})


@dataclass(frozen=True, slots=True)
class Fragment:
    """`collating` is what the text brings into a comparison; `atomic`: it may be an operand without parentheses."""

    text: str
    collating: Collating = NEUTRAL
    atomic: bool = True

    @property
    def operand(self) -> str:
        return self.text if self.atomic else f"({self.text})"


@dataclass(frozen=True, slots=True)
class ExprText:
    """`literal` is the text of a constant."""

    literal: Callable[[Value], str] = literal_text

    def text(self, expr: Expr) -> str:
        return self.fragment(expr).text

    def operand(self, expr: Expr) -> str:
        """In parentheses where another operator may stand beside it."""
        return self.fragment(expr).operand

    def output(self, output: Output) -> str:
        """`"a"`, or `… AS "name"` where the name is another."""
        text = self.text(output.expr)
        named = isinstance(output.expr, ColumnRef) and output.expr.name == output.name
        return text if named else f"{text} AS {quote(output.name)}"

    def key(self, key: OrderKey) -> str:
        nulls = "" if key.nulls_first != key.descending else " nulls first" if key.nulls_first else " nulls last"
        collation = "" if key.collation == "BINARY" else f" collate {key.collation}"
        return f"{self.text(key.expr)}{collation}{' desc' if key.descending else ''}{nulls}"

    def fragment(self, expr: Expr) -> Fragment:
        match expr:
            case ColumnRef():
                return Fragment(quote(expr.name), Collating(expr.collation))
            case Const():
                return Fragment(self._constant(expr.value))
            case Cast():
                arg = self.fragment(expr.arg)
                return Fragment(f"CAST({arg.text} AS {expr.sql_type})", arg.collating)
            case Case():
                return self._case(expr)
            case Call():
                return _call(expr, [self.fragment(arg) for arg in expr.args])
            case _:
                assert_never(expr)

    def _constant(self, value: Value) -> str:
        """One without a literal is told with its type."""
        type = type_of(value)
        return self.literal(value) if type in LITERALS else f"{type.value} {self.literal(str(value))}"

    def _case(self, expr: Case) -> Fragment:
        whens = [(self.fragment(condition), self.fragment(result)) for condition, result in expr.whens]
        default = self.fragment(expr.default)
        words = " ".join(f"WHEN {condition.text} THEN {result.text}" for condition, result in whens)
        otherwise = "" if expr.default == Const(None, None) else f" ELSE {default.text}"
        parts = [*(part for pair in whens for part in pair), default]
        return Fragment(f"CASE {words}{otherwise} END", carried(part.collating for part in parts))


def _call(expr: Call, args: list[Fragment]) -> Fragment:
    name = expr.name
    if name in _COMPARISONS:
        args = _collated(args, expr.collation, _pairs)
        return _joined(_COMPARISONS[name], args)
    if name in _INFIX:
        return _joined(_INFIX[name], args)
    if name in _PREFIX:
        passed = args[0].collating if name == "pos" else carried([args[0].collating])
        return Fragment(_PREFIX[name] + args[0].operand, passed, atomic=False)
    if name in _MATCHES:
        return _matching(_MATCHES[name], args)
    if name in ("in", "notin"):
        return _membership(name, _collated(args, expr.collation, _needle))
    if name in ("between", "notbetween"):
        return _range(name, _collated(args, expr.collation, _pairs))
    if name in _COLLATING_FUNCTIONS:
        args = _collated(args, expr.collation, _first_named)
    return Fragment(f"{name}({', '.join(arg.text for arg in args)})", carried(arg.collating for arg in args))


def _joined(sign: str, args: Sequence[Fragment]) -> Fragment:
    text = f" {sign} ".join(arg.operand for arg in args)
    return Fragment(text, carried(arg.collating for arg in args), atomic=False)


def _matching(words: str, args: Sequence[Fragment]) -> Fragment:
    value, pattern, *escape = args
    text = f"{value.operand} {words} {pattern.operand}" + "".join(f" ESCAPE {arg.operand}" for arg in escape)
    return Fragment(text, carried(arg.collating for arg in (pattern, value, *escape)), atomic=False)


def _membership(name: str, args: Sequence[Fragment]) -> Fragment:
    needle, *items = args
    words = "IN" if name == "in" else "NOT IN"
    text = f"{needle.operand} {words} ({', '.join(item.text for item in items)})"
    return Fragment(text, carried(arg.collating for arg in args), atomic=False)


def _range(name: str, args: Sequence[Fragment]) -> Fragment:
    words = "BETWEEN" if name == "between" else "NOT BETWEEN"
    text = f"{args[0].operand} {words} {args[1].operand} AND {args[2].operand}"
    return Fragment(text, carried(arg.collating for arg in args), atomic=False)


def _collated(args: list[Fragment], wanted: str, natural: Callable[[list[Fragment]], set[str]]) -> list[Fragment]:
    """The arguments, with an explicit COLLATE on the first where SQLite would not choose `wanted` by itself."""
    if natural(args) == {wanted}:
        return args
    return [Fragment(f"{args[0].operand} COLLATE {wanted}", Collating(wanted, explicit=True)), *args[1:]]


def _pairs(args: list[Fragment]) -> set[str]:
    return {compared(args[0].collating, arg.collating).name or "BINARY" for arg in args[1:]}


def _needle(args: list[Fragment]) -> set[str]:
    # One constant with a COLLATE inside makes SQLite read IN as an equation: then the needle must say its own.
    explicit = {arg.collating.name or "BINARY" for arg in args[1:] if arg.collating.explicit}
    return {args[0].collating.name or "BINARY"} | (set() if args[0].collating.explicit else explicit)


def _first_named(args: list[Fragment]) -> set[str]:
    return {first_named(arg.collating for arg in args).name or "BINARY"}
