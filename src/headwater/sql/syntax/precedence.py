"""Reads operators by their precedence: a dialect says which there are and how tightly each binds.

sqlglot's reader takes the union of many dialects and binds some operators otherwise than a database does: there
`a < b IS NULL` or `a = b < c` would silently mean something else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headwater.sql.syntax.token_reader import TokenReader

LOOSEST = 1  # the tier of OR


class PrecedenceReader(TokenReader):
    # What a dialect says: the larger a tier, the more tightly its operators bind
    _binaries: ClassVar[Mapping[str, tuple[int, type[exp.Expr]]]]  # the tier and the node of each
    _prefixes: ClassVar[tuple[tuple[TokenType, type[exp.Expr]], ...]]
    _not: ClassVar[int]
    _unary: ClassVar[int]

    def _expression(self) -> exp.Expr:
        return self._tier(LOOSEST)

    def _tier(self, least: int) -> exp.Expr:
        """An operand and all operators after it that bind at least as tightly as `least`."""
        first = self._curr
        this = self._prefixed()
        while True:
            after = self._tight(this, least) or self._binary(this, least) or self._predicate(this, least)
            if after is None:
                return this
            this = self._placed(after, first)

    def _prefixed(self) -> exp.Expr:
        first = self._curr
        if self._match_not():
            return self._placed(exp.Not(this=self._tier(self._not)), first)
        for token_type, node in self._prefixes:
            if self._match(token_type):
                return self._placed(node(this=self._tier(self._unary)), first)
        return self._operand()

    def _binary(self, this: exp.Expr, least: int) -> exp.Expr | None:
        sign = self._operator()
        tier, node = self._binaries.get(sign, (0, exp.Expr))
        if tier < least or not tier:
            return None
        self._advance(self._token_count(sign))
        return self._right(this, node, tier)

    def _token_count(self, sign: str) -> int:
        """How many tokens sqlglot makes of an operator."""
        return 1

    def _right(self, this: exp.Expr, node: type[exp.Expr], tier: int) -> exp.Expr:
        return node(this=this, expression=self._tier(tier + 1))

    # What a dialect reads

    @abstractmethod
    def _tight(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """What binds before any sign between two operands does."""

    @abstractmethod
    def _predicate(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """The postfix and keyword operators."""

    @abstractmethod
    def _operand(self) -> exp.Expr: ...
