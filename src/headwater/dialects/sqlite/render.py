"""A bound expression as SQLite's SQL: same value, same type, same collation as what the user wrote.

For the exact fallback of the engine and for canonical text. COLLATE is added only where the plain text would compare
otherwise than the bound call says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from headwater.dialects.sqlite import literals
from headwater.dialects.sqlite.affinity import NEUTRAL, Collating, carried, compared, first_named
from headwater.model.value import Value, type_of
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
class _Text:
    """`atomic`: may stand as an operand without parentheses."""

    text: str
    collating: Collating = NEUTRAL
    atomic: bool = True

    @property
    def operand(self) -> str:
        return self.text if self.atomic else f"({self.text})"


def render(expr: Expr) -> str:
    return _render(expr).text


def render_operand(expr: Expr) -> str:
    """In parentheses where another operator may stand beside it."""
    return _render(expr).operand


def render_output(output: Output) -> str:
    """`"a"`, or `… AS "name"` where the name is another."""
    text = render(output.expr)
    named = isinstance(output.expr, ColumnRef) and output.expr.name == output.name
    return text if named else f"{text} AS {quote(output.name)}"


def render_key(key: OrderKey, table: str) -> str:
    """A bare column is qualified, or SQLite would take an alias of the result for it."""
    inner = _render(key.expr)
    text = f"{quote(table)}.{inner.text}" if isinstance(key.expr, ColumnRef) else inner.operand
    if (inner.collating.name or "BINARY") != key.collation:
        text += f" COLLATE {key.collation}"
    if key.descending:
        text += " DESC"
    if key.nulls_first == key.descending:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text


def _render(expr: Expr) -> _Text:
    match expr:
        case ColumnRef():
            return _Text(quote(expr.name), Collating(expr.collation))
        case Const():
            return _Text(_constant(expr.value))
        case Cast():
            arg = _render(expr.arg)
            return _Text(f"CAST({arg.text} AS {expr.affinity})", arg.collating)
        case Case():
            return _case(expr)
        case Call():
            return _call(expr, [_render(arg) for arg in expr.args])
        case _:
            assert_never(expr)


def _constant(value: Value) -> str:
    """One that SQLite has no literal for is told with its type: such stand only in names of relations."""
    type = type_of(value)
    return literals.write(value) if type in literals.WRITTEN else f"{type.value} {literals.write(str(value))}"


def _case(expr: Case) -> _Text:
    whens = [(_render(condition), _render(result)) for condition, result in expr.whens]
    default = _render(expr.default)
    words = " ".join(f"WHEN {condition.text} THEN {result.text}" for condition, result in whens)
    otherwise = "" if expr.default == Const(None, None) else f" ELSE {default.text}"
    parts = [*(part for pair in whens for part in pair), default]
    return _Text(f"CASE {words}{otherwise} END", carried(part.collating for part in parts))


def _call(expr: Call, args: list[_Text]) -> _Text:
    name = expr.name
    if name in _COMPARISONS:
        args = _collated(args, expr.collation, _pairs)
        return _joined(_COMPARISONS[name], args)
    if name in _INFIX:
        return _joined(_INFIX[name], args)
    if name in _PREFIX:
        passed = args[0].collating if name == "pos" else carried([args[0].collating])
        return _Text(_PREFIX[name] + args[0].operand, passed, atomic=False)
    if name in _MATCHES:
        return _matching(_MATCHES[name], args)
    if name in ("in", "notin"):
        return _membership(name, _collated(args, expr.collation, _needle))
    if name in ("between", "notbetween"):
        return _range(name, _collated(args, expr.collation, _pairs))
    if name in _COLLATING_FUNCTIONS:
        args = _collated(args, expr.collation, _first_named)
    return _Text(f"{name}({', '.join(arg.text for arg in args)})", carried(arg.collating for arg in args))


def _joined(sign: str, args: Sequence[_Text]) -> _Text:
    text = f" {sign} ".join(arg.operand for arg in args)
    return _Text(text, carried(arg.collating for arg in args), atomic=False)


def _matching(words: str, args: Sequence[_Text]) -> _Text:
    value, pattern, *escape = args
    text = f"{value.operand} {words} {pattern.operand}" + "".join(f" ESCAPE {arg.operand}" for arg in escape)
    return _Text(text, carried(arg.collating for arg in (pattern, value, *escape)), atomic=False)


def _membership(name: str, args: Sequence[_Text]) -> _Text:
    needle, *items = args
    words = "IN" if name == "in" else "NOT IN"
    text = f"{needle.operand} {words} ({', '.join(item.text for item in items)})"
    return _Text(text, carried(arg.collating for arg in args), atomic=False)


def _range(name: str, args: Sequence[_Text]) -> _Text:
    words = "BETWEEN" if name == "between" else "NOT BETWEEN"
    text = f"{args[0].operand} {words} {args[1].operand} AND {args[2].operand}"
    return _Text(text, carried(arg.collating for arg in args), atomic=False)


def _collated(args: list[_Text], wanted: str, natural: Callable[[list[_Text]], set[str]]) -> list[_Text]:
    """The arguments, with an explicit COLLATE on the first where SQLite would not choose `wanted` by itself."""
    if natural(args) == {wanted}:
        return args
    return [_Text(f"{args[0].operand} COLLATE {wanted}", Collating(wanted, explicit=True)), *args[1:]]


def _pairs(args: list[_Text]) -> set[str]:
    return {compared(args[0].collating, arg.collating).name or "BINARY" for arg in args[1:]}


def _needle(args: list[_Text]) -> set[str]:
    # One constant with a COLLATE inside makes SQLite read IN as an equation: then the needle must say its own.
    explicit = {arg.collating.name or "BINARY" for arg in args[1:] if arg.collating.explicit}
    return {args[0].collating.name or "BINARY"} | (set() if args[0].collating.explicit else explicit)


def _first_named(args: list[_Text]) -> set[str]:
    return {first_named(arg.collating for arg in args).name or "BINARY"}
