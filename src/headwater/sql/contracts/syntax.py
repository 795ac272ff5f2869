"""What a dialect says about the text of a query: how it is read and written. Resolves no name and types nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

    from headwater.model.value import Value
    from headwater.sql.ir.expr import Const, Expr, OrderKey, Output
    from headwater.sql.ir.expr_text import ExprText
    from headwater.sql.ir.predicate import Op
    from headwater.sql.syntax.parameters import Params
    from headwater.sql.syntax.span import Span
    from headwater.sql.syntax.writer import Writer


class SelectWriter(Protocol):
    """The text of a SELECT on one table, from bound expressions over its columns."""

    def condition(self, expr: Expr) -> str:
        """A conjunct of WHERE."""

    def comparison(self, column: str, op: Op, text: str) -> str:
        """A conjunct that compares a column with a constant or hole; with a list of them where `op` is IN."""

    def key(self, key: OrderKey, table: str) -> str:
        """A term of ORDER BY."""

    def select(
        self, table: str, outputs: Iterable[Output], where: Sequence[str], order: Sequence[OrderKey], frame: str
    ) -> str: ...


class DialectSyntax(Protocol):
    # Reading

    def tokens(self, sql: str) -> list[Token]: ...
    def statement(self, tokens: list[Token], sql: str) -> exp.Expr:
        """The tree of one query; `GrammarError` or `UnsupportedQuery` where it is not read."""

    def given(self, value: Any, sql: str, at: Span | None) -> Const:
        """A value given for a parameter."""

    def whole_number(self, text: str) -> int | None:
        """The value of a numeric literal; None where it is no integer."""

    # Writing

    @property
    def expr_text(self) -> ExprText:
        """Writes bound expressions as canonical text."""

    @property
    def select_writer(self) -> SelectWriter | None:
        """Writes a query on one table from what was bound, so that queries that only look different share a template.
        None: its text is the user's own, completed."""

    def write(self, value: Value) -> str:
        """The text of a constant."""

    def all_rows(self) -> str:
        """LIMIT of a frame without one."""

    def writer(self, params: Params) -> Writer:
        """Writes trees as canonical text."""
