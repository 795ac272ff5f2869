"""The readers of sql/syntax know no database: a dialect made up here says what binds how tightly."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from headwater.sql.syntax.precedence import LOOSEST
from headwater.sql.syntax.select import SelectReader
from headwater.sql.syntax.span import GrammarError, span

SIGNS: dict[str, type[exp.Expr]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "||": exp.DPipe}
NOT, UNARY = 3, 9


class MadeUp(SelectReader):
    """SELECT, and operators whose tiers a test gives."""

    _quotes, _reserved, _no_names = '"', frozenset({"SELECT", "FROM", "NOT"}), (TokenType.STRING, TokenType.NUMBER)
    _binaries: ClassVar[dict[str, tuple[int, type[exp.Expr]]]] = {}
    _prefixes = ((TokenType.DASH, exp.Neg),)
    _not, _unary, _nulls_are_smallest = NOT, UNARY, True

    def _tight(self, this: exp.Expr, least: int) -> exp.Expr | None:
        return None

    def _predicate(self, this: exp.Expr, least: int) -> exp.Expr | None:
        return None

    def _query(self) -> exp.Expr:
        return self._select()

    def _from(self) -> exp.Expr:
        return self._joins()

    def _column_alias(self) -> exp.Identifier | None:
        return None

    def _table_alias(self) -> exp.Identifier | None:
        return None


def read(text: str, tiers: dict[str, int]) -> exp.Expr:
    """The expression `text` in a dialect with these tiers."""

    class Tiered(MadeUp):
        _binaries: ClassVar[dict[str, tuple[int, type[exp.Expr]]]] = {
            sign: (tier, SIGNS[sign]) for sign, tier in tiers.items()
        }

    sql = f"SELECT {text}"
    found: exp.Expr = Tiered(dialect=Dialect()).statement(Dialect().tokenize(sql), sql).expressions[0]
    return found


def grouped(node: exp.Expr) -> str:
    """With every pair of parentheses."""
    sign = next((sign for sign, kind in SIGNS.items() if type(node) is kind), None)
    if sign is not None:
        return f"({grouped(node.this)} {sign} {grouped(node.expression)})"
    if isinstance(node, exp.Neg | exp.Not):
        return f"({'-' if isinstance(node, exp.Neg) else 'NOT '}{grouped(node.this)})"
    return str(node.name)


def climbed(operands: list[str], signs: list[str], tiers: dict[str, int]) -> str:
    """The loosest sign splits, the last of several: operators of one tier are read from left to right."""
    if not signs:
        return operands[0]
    loosest = min(tiers[sign] for sign in signs)
    at = max(place for place, sign in enumerate(signs) if tiers[sign] == loosest)
    left = climbed(operands[: at + 1], signs[:at], tiers)
    right = climbed(operands[at + 1 :], signs[at + 1 :], tiers)
    return f"({left} {signs[at]} {right})"


@given(
    st.fixed_dictionaries({sign: st.integers(LOOSEST, UNARY - 1) for sign in SIGNS}),
    st.lists(st.sampled_from(sorted(SIGNS)), max_size=8),
)
def test_operators_bind_by_their_tiers(tiers: dict[str, int], signs: list[str]) -> None:
    operands = [f"x{number}" for number in range(len(signs) + 1)]
    text = operands[0] + "".join(f" {sign} {operand}" for sign, operand in zip(signs, operands[1:], strict=True))
    assert grouped(read(text, tiers)) == climbed(operands, signs, tiers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a * b", "((-a) * b)"),
        ("NOT a + b", "(NOT (a + b))"),
        ("NOT a - b", "((NOT a) - b)"),
        ("(a + b) * c", "((a + b) * c)"),
    ],
)
def test_prefixes_bind_by_their_tiers_too(text: str, expected: str) -> None:
    assert grouped(read(text, {"-": NOT - 1, "+": NOT + 1, "*": NOT + 2})) == expected


def test_every_node_knows_its_place_in_the_text() -> None:
    tree = read("a + (b * c)", {"+": 1, "*": 2})
    assert [span(node) for node in (tree, tree.this, tree.expression)] == [(7, 18), (7, 8), (11, 18)]


@pytest.mark.parametrize(("text", "at"), [("a +", (9, 10)), ("a + * b", (11, 12)), ("a + 1x", (11, 12))])
def test_a_syntax_error_knows_its_place_too(text: str, at: tuple[int, int]) -> None:
    with pytest.raises(GrammarError) as wrong:
        read(text, {"+": 1, "*": 2})
    assert wrong.value.at == at
