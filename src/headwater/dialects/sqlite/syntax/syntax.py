"""SQLite's SQL as text: how it is read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.tokenizer_core import Token

from headwater.dialects.sqlite import literals
from headwater.dialects.sqlite.render import SQLITE_TEXT
from headwater.dialects.sqlite.syntax.parameter_value import to_value
from headwater.dialects.sqlite.syntax.select_writer import SqliteSelectWriter
from headwater.dialects.sqlite.syntax.statement import SqliteStatement
from headwater.dialects.sqlite.syntax.writer import SqliteWriter
from headwater.model.value import Value, type_of
from headwater.sql.contracts.syntax import SelectWriter
from headwater.sql.ir.expr import Const
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.span import Span
from headwater.sql.syntax.writer import Writer

_SELECT_WRITER = SqliteSelectWriter()


@dataclass(frozen=True, slots=True)
class SqliteSyntax:
    """A `DialectSyntax`."""

    expr_text: ExprText = SQLITE_TEXT
    select_writer: SelectWriter | None = _SELECT_WRITER

    def tokens(self, sql: str) -> list[Token]:
        return SQLite().tokenize(sql)

    def statement(self, tokens: list[Token], sql: str) -> exp.Expr:
        return SqliteStatement(dialect=SQLite()).statement(tokens, sql)

    def given(self, value: Any, sql: str, at: Span | None) -> Const:
        bound = to_value(value, sql, at)
        return Const(bound, type_of(bound))

    def whole_number(self, text: str) -> int | None:
        value = literals.read_number(text)
        return value if isinstance(value, int) else None

    def write(self, value: Value) -> str:
        return literals.write(value)

    def all_rows(self) -> str:
        return "-1"

    def writer(self, params: Params) -> Writer:
        return SqliteWriter(params)


SQLITE_SYNTAX = SqliteSyntax()
