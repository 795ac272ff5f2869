"""Text to syntax tree: one query. What is no query is refused where it stands.

Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sql.dialect import Dialect
from headwater.sql.syntax.span import GrammarError, token_span
from headwater.sql.syntax.suggestions import words

_WRITES = words("INSERT UPDATE DELETE REPLACE CREATE ALTER DROP PRAGMA ATTACH DETACH VACUUM ANALYZE BEGIN")


@dataclass(frozen=True, slots=True)
class Parsed:
    """`select` is a `Select`, a set operation or `Values`."""

    select: exp.Expr
    sql: str
    dialect: Dialect


def parse(sql: str, dialect: Dialect) -> Parsed:
    """One SELECT statement, or `SqlError` with the place where it goes wrong."""
    tokens = _tokens(sql, dialect)
    _refuse_others(tokens, sql)
    try:
        return Parsed(dialect.syntax.statement(tokens, sql), sql, dialect)
    except GrammarError as wrong:
        raise SqlError(str(wrong), sql=sql, at=wrong.at) from None
    except RecursionError:
        raise UnsupportedQuery("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None


def _tokens(sql: str, dialect: Dialect) -> list[Token]:
    try:
        tokens = dialect.syntax.tokens(sql)
    except TokenError:
        raise SqlError("the text ends inside a string, a quoted name or a comment", sql=sql, at=(0, len(sql))) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SqlError("the text holds no statement", sql=sql, hint="write a SELECT")
    return tokens


def _refuse_others(tokens: list[Token], sql: str) -> None:
    first, word = tokens[0], tokens[0].text.upper()
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            at = token_span(token)
            raise UnsupportedQuery(
                "expected one statement, found several", sql=sql, at=at, hint="subscribe to each by itself"
            )
    if word in _WRITES:
        hint = "only the result of a SELECT can be live"
        raise UnsupportedQuery(f"expected a SELECT, found {word}", sql=sql, at=token_span(first), hint=hint)
    if word not in ("SELECT", "WITH", "VALUES") or first.token_type == TokenType.IDENTIFIER:
        raise SqlError(f'expected a SELECT, found "{first.text}"', sql=sql, at=token_span(first))
