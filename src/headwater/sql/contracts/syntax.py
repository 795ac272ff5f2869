"""What a dialect says about the text of a query: how it is read and written. Resolves no name and types nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

    from headwater.model.value import Value
    from headwater.sql.ir.expr import Const
    from headwater.sql.ir.expr_text import ExprText
    from headwater.sql.syntax.parameters import Params
    from headwater.sql.syntax.span import Span
    from headwater.sql.syntax.writer import Writer


class DialectSyntax(Protocol):
    # Reading

    def tokens(self, sql: str) -> list[Token]: ...
    def statement(self, tokens: list[Token], sql: str) -> exp.Expr:
        """The tree of one query; `GrammarError` or `UnsupportedQuery` where it is not read."""

    def given(self, value: Any, sql: str, at: Span | None) -> Const:
        """A value given for a parameter."""

    # Writing

    @property
    def expr_text(self) -> ExprText:
        """Writes bound expressions as canonical text."""

    def write(self, value: Value) -> str:
        """The text of a constant."""

    def all_rows(self) -> str:
        """LIMIT of a frame without one."""

    def writer(self, params: Params) -> Writer:
        """Writes trees as canonical text."""
