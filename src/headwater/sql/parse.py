"""Text to syntax tree: one SELECT on one table. What SELECT can do beyond that is refused where it stands.

Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sql.grammar import NEVER_ALIAS, OR, ROWS, Expressions, Span, Wrong, token_span
from headwater.sql.names import words

_WRITES = words("INSERT UPDATE DELETE REPLACE CREATE ALTER DROP PRAGMA ATTACH DETACH VACUUM ANALYZE BEGIN")
_JOINS = words("JOIN NATURAL LEFT RIGHT FULL INNER CROSS")
_NEVER_TABLE_ALIAS = NEVER_ALIAS - words("GLOB LIKE MATCH REGEXP")
_JOIN_HINT = "subscribe to each table by itself"
_SET_OPERATORS = words("UNION INTERSECT EXCEPT")
_GROUPING = {
    TokenType.GROUP_BY: "GROUP BY is",
    TokenType.HAVING: "HAVING is",
    TokenType.WINDOW: "WINDOW is",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    select: exp.Select
    sql: str


def parse(sql: str) -> Parsed:
    """One SELECT statement, or `SqlError` with the place where it goes wrong."""
    tokens = _tokens(sql)
    _refuse_others(tokens, sql)
    try:
        return Parsed(_Statement(dialect=SQLite()).select(tokens, sql), sql)
    except Wrong as wrong:
        raise SqlError(str(wrong), sql=sql, at=wrong.at) from None
    except RecursionError:
        raise UnsupportedQuery("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None


def span(node: exp.Expr) -> Span | None:
    """The characters of the text a node stands for."""
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is not None and end is not None:
        return start, end + 1
    inner = [found for child in node.iter_expressions() if (found := span(child))]
    return (min(at for at, _ in inner), max(to for _, to in inner)) if inner else None


def _tokens(sql: str) -> list[Token]:
    try:
        tokens = SQLite().tokenize(sql)
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
    if word in ("WITH", "VALUES"):
        raise UnsupportedQuery(f"{word} is not supported yet", sql=sql, at=token_span(first), hint=ROWS)
    if word in _WRITES:
        hint = "only the result of a SELECT can be live"
        raise UnsupportedQuery(f"expected a SELECT, found {word}", sql=sql, at=token_span(first), hint=hint)
    if first.token_type != TokenType.SELECT:
        raise SqlError(f'expected a SELECT, found "{first.text}"', sql=sql, at=token_span(first))


class _Statement(Expressions):
    """The clauses of a SELECT in SQLite's order."""

    def select(self, tokens: list[Token], sql: str) -> exp.Select:
        tree = self._parse(_Statement._select, tokens, sql)[0]  # type: ignore[arg-type]
        assert isinstance(tree, exp.Select)
        return tree

    def _select(self) -> exp.Select:
        first = self._curr
        self._advance()
        if self._match(TokenType.DISTINCT):
            raise self._unsupported("DISTINCT is", self._prev, "select the key too: then every row is distinct")
        self._match(TokenType.ALL)
        columns = self._parse_csv(self._result_column)
        source = self._source() if self._match(TokenType.FROM) else None
        where = exp.Where(this=self._tier(OR)) if self._match(TokenType.WHERE) else None
        self._refuse_grouping()
        order = exp.Order(expressions=self._parse_csv(self._term)) if self._match(TokenType.ORDER_BY) else None
        limit, offset = self._frame() if self._match(TokenType.LIMIT) else (None, None)
        self._refuse_set_operators()
        select = exp.Select(expressions=columns, from_=source, where=where, order=order, limit=limit, offset=offset)
        return select.update_positions(first)

    # The result columns

    def _result_column(self) -> exp.Expr:
        first = self._curr
        if self._match(TokenType.STAR):
            return self._placed(exp.Star(), first)
        if self._word(first) and self._next.text == "." and self._peek(2).token_type == TokenType.STAR:
            self._advance(3)
            name = exp.to_identifier(first.text, quoted=True).update_positions(first)
            return self._placed(exp.Column(this=exp.Star(), table=name), first)
        this = self._tier(OR)
        # SQLite names an unaliased column by all the text up to the next token, comments included.
        this.meta["text"] = self.sql[first.start : self._curr.start if self._curr else None].strip()
        alias = self._alias(NEVER_ALIAS)
        return exp.Alias(this=this, alias=alias) if alias else this

    def _alias(self, never: frozenset[str]) -> exp.Identifier | None:
        """`AS name`, or the name alone where no keyword could be meant."""
        written = self._match(TokenType.ALIAS)
        token = self._curr
        named = bool(token) and (token.token_type == TokenType.STRING or self._word(token))
        if not written and (not named or self._operator() in never):
            return None
        if not named:
            self.raise_error("expected a name after AS")
        self._advance()
        return exp.to_identifier(token.text, quoted=True).update_positions(token)

    # FROM

    def _source(self) -> exp.Table:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            self._skip_to_close()
            raise self._unsupported("a subquery in FROM is", first, "name the table")
        name, schema = self._name("a table"), None
        if self._match(TokenType.DOT):
            schema, name = name, self._name("a table after the dot")
        if self._match(TokenType.L_PAREN):
            self._skip_to_close()
            raise self._unsupported("a table function is", first, "name a table")
        table = exp.Table(this=name, db=schema, alias=self._alias(_NEVER_TABLE_ALIAS))
        self._refuse_more_tables()
        return table

    def _refuse_more_tables(self) -> None:
        word = self._operator()
        if word in _JOINS or (word == "," and self._next):
            raise self._unsupported("JOIN is", self._curr, _JOIN_HINT)
        if word.startswith("INDEXED") or (word == "NOT" and self._next.text.upper() == "INDEXED"):
            raise self._unsupported("INDEXED is", self._curr, "leave it out")

    # What follows

    def _refuse_grouping(self) -> None:
        what = _GROUPING.get(self._curr.token_type)
        if what:
            raise self._unsupported(what, self._curr, "subscribe to the rows and group them in the application")

    def _refuse_set_operators(self) -> None:
        if self._operator() in _SET_OPERATORS:
            raise self._unsupported(f"{self._operator()} is", self._curr, "subscribe to each SELECT by itself")

    def _term(self) -> exp.Ordered:
        """NULLs come first where the order rises, as the smallest values, unless said otherwise."""
        this = self._tier(OR)
        rising = self._match(TokenType.ASC) or not self._match(TokenType.DESC)
        nulls_first = bool(rising)
        if self._match_text_seq("NULLS"):
            nulls_first = bool(self._match_text_seq("FIRST"))
            if not nulls_first and not self._match_text_seq("LAST"):
                self.raise_error("expected FIRST or LAST after NULLS")
        return exp.Ordered(this=this, desc=not rising, nulls_first=nulls_first)

    def _frame(self) -> tuple[exp.Limit, exp.Offset | None]:
        """`LIMIT a OFFSET b`, or `LIMIT b, a`."""
        count, skipped = self._tier(OR), None
        if self._match(TokenType.OFFSET):
            skipped = self._tier(OR)
        elif self._match(TokenType.COMMA):
            skipped, count = count, self._tier(OR)
        return exp.Limit(expression=count), exp.Offset(expression=skipped) if skipped else None
