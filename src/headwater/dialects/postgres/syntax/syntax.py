"""PostgreSQL's SQL as text: how it is read and written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token

from headwater.dialects.postgres.literals import constant
from headwater.dialects.postgres.literals.array_text import array_text
from headwater.dialects.postgres.syntax.ambiguous_names import refuse_alike
from headwater.dialects.postgres.syntax.constant_conditions import spell_constant_conditions
from headwater.dialects.postgres.syntax.statement import PostgresStatement
from headwater.dialects.postgres.syntax.writer import PostgresWriter
from headwater.model.errors import SqlError
from headwater.model.value import Type, Value
from headwater.sql.contracts.syntax import SelectWriter
from headwater.sql.ir.expr import Const
from headwater.sql.ir.expr_text import ExprText
from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.span import Span
from headwater.sql.syntax.writer import Writer

_TEXT = ExprText()


@dataclass(frozen=True, slots=True)
class PostgresSyntax:
    """A `DialectSyntax`."""

    expr_text: ExprText = _TEXT
    select_writer: SelectWriter | None = None

    def tokens(self, sql: str) -> list[Token]:
        """With a blank behind it: sqlglot takes a last `''` for an open string where a `$1` stands before it."""
        return Postgres().tokenize(f"{sql} ")

    def statement(self, tokens: list[Token], sql: str) -> exp.Expr:
        tree = PostgresStatement(dialect=Postgres()).statement(tokens, sql)
        refuse_alike(tree, sql)
        spell_constant_conditions(tree, sql)
        return tree

    def given(self, value: Any, sql: str, at: Span | None) -> Const:
        """As text that is read by the type PostgreSQL expects there."""
        match value:
            case None:
                return Const(None, None)
            case bool():
                return Const("true" if value else "false", Type.TEXT)
            case float():
                return Const(repr(value), Type.TEXT)
            case str() if "\0" in value:
                raise SqlError("PostgreSQL has no text with a NUL in it", sql=sql, at=at)
            case bytes():
                return Const(f"\\x{value.hex()}", Type.TEXT)
            case list() | tuple():
                return Const(array_text([self.given(each, sql, at).value for each in value]), Type.TEXT)
            case dict():
                return Const(json.dumps(value), Type.TEXT)
            case _:
                return Const(str(value), Type.TEXT)

    def whole_number(self, text: str) -> int | None:
        return int(text) if text.isascii() and text.isdigit() else None

    def write(self, value: Value) -> str:
        return constant.write(value)

    def all_rows(self) -> str:
        return "NULL"

    def writer(self, params: Params) -> Writer:
        return PostgresWriter(params)


POSTGRES_SYNTAX = PostgresSyntax()
