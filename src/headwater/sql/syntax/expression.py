"""Reads operands: constants, parameters, names, calls, CASE and subqueries. Resolves no name and types nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.sql.syntax.precedence import PrecedenceReader
from headwater.sql.syntax.span import GrammarError, token_span


class ExpressionReader(PrecedenceReader):
    def _operand(self) -> exp.Expr:
        first = self._curr
        if not first:
            self.raise_error("expected an expression")
        reader = _OPERANDS.get(first.token_type) or _WORDS.get(first.text.upper())
        if self._quoted(first) or (reader is None and self._word(first)):
            reader = ExpressionReader._named
        if reader is None and first.text[:1] == "$":
            reader = ExpressionReader._dollar
        if reader is None:
            self.raise_error("expected an expression")
        assert reader is not None
        return self._placed(reader(self), first)

    # Constants

    def _number(self) -> exp.Expr:
        first = self._curr
        self._advance()
        if first.token_type == TokenType.DOT:
            if self._curr.token_type != TokenType.NUMBER or not self._touches(self._curr):
                self.raise_error("expected an expression", first)
            self._advance()
        if self._touches(self._curr):
            text = self.sql[first.start : self._curr.end + 1]
            raise GrammarError(f'unrecognized token "{text}"', token_span(first))
        return exp.Literal(this=self.sql[first.start : self._prev.end + 1], is_string=False)

    def _string(self) -> exp.Expr:
        self._advance()
        return exp.Literal(this=self._prev.text, is_string=True)

    def _hex(self) -> exp.Expr:
        self._advance()
        text = self.sql[self._prev.start : self._prev.end + 1]
        return exp.Literal(this=text, is_string=False) if text[:1] == "0" else exp.HexString(this=self._prev.text)

    def _constant(self) -> exp.Expr:
        self._advance()
        match self._prev.text.upper():
            case "NULL":
                return exp.Null()
            case word:
                return exp.Boolean(this=word == "TRUE")

    # Parameters

    def _question_mark(self) -> exp.Expr:
        self._advance()
        if self._curr.token_type == TokenType.NUMBER and self._touches(self._curr):
            self._advance()
            return exp.Placeholder(this=int(self._prev.text), kind="?")
        return exp.Placeholder(kind="?")

    def _named_parameter(self) -> exp.Expr:
        self._advance()
        sign = self._prev.text
        if not self._touches(self._curr):
            self.raise_error(f"expected a name after {sign}")
        self._advance()
        return exp.Placeholder(this=self._prev.text, kind=sign)

    def _dollar(self) -> exp.Expr:
        """`$1` is the first parameter; `$name` a named one."""
        self._advance()
        name = self._prev.text[1:]
        return exp.Placeholder(this=int(name) if name.isdigit() else name, kind="$")

    # Queries inside

    def _paren(self) -> exp.Expr:
        """Parentheses leave no node behind: `(a)` is still the column."""
        first = self._curr
        self._advance()
        if self._starts_query():
            return self._subquery(first)
        this = self._expression()
        if self._match(TokenType.COMMA, advance=False):
            raise self._unsupported("a row value is", first, "compare the columns one by one")
        self._expect(TokenType.R_PAREN, ")")
        return this

    def _in(self, this: exp.Expr) -> exp.Expr:
        """What follows IN: a query, or a list that may be empty."""
        first = self._curr
        self._expect(TokenType.L_PAREN, "a list in parentheses after IN")
        if self._starts_query():
            return exp.In(this=this, query=self._subquery(first))
        items = [] if self._match(TokenType.R_PAREN, advance=False) else self._parse_csv(self._expression)
        self._expect(TokenType.R_PAREN, ")")
        return exp.In(this=this, expressions=items)

    def _exists(self) -> exp.Expr:
        first = self._curr
        self._advance()
        self._expect(TokenType.L_PAREN, "( after EXISTS")
        if not self._starts_query():
            self.raise_error("expected SELECT", self._curr)
        return exp.Exists(this=self._subquery(first))

    def _starts_query(self) -> bool:
        return self._operator() in ("SELECT", "WITH", "VALUES")

    def _subquery(self, first: Token) -> exp.Subquery:
        """A query whose parenthesis is open already."""
        query = self._query()
        self._expect(TokenType.R_PAREN, ")")
        return self._placed(exp.Subquery(this=query), first)

    @abstractmethod
    def _query(self) -> exp.Expr:
        """The grammar of statements knows what a query is."""

    # Names, calls and CASE

    def _named(self) -> exp.Expr:
        """A column, or a function where a parenthesis follows."""
        first = self._curr
        if self._next and self._next.token_type == TokenType.L_PAREN:
            return self._call()
        parts = [self._name("a name")]
        while self._match(TokenType.DOT):
            parts.append(self._name("a name after the dot"))
        if len(parts) > 3:
            raise GrammarError("syntax error: a column has at most a schema and a table before it", token_span(first))
        schema, table, name = [None] * (3 - len(parts)) + parts
        return exp.Column(this=name, table=table, db=schema)

    def _call(self) -> exp.Expr:
        first, distinct = self._curr, False
        self._advance(2)
        if self._match(TokenType.STAR):
            args: list[exp.Expr] = [exp.Star()]
        elif self._match(TokenType.R_PAREN, advance=False):
            args = []
        else:
            distinct = bool(self._match(TokenType.DISTINCT))
            args = self._parse_csv(self._expression)
        order = self._arranged()
        self._expect(TokenType.R_PAREN, ")")
        call = exp.Anonymous(
            this=self._spelling(first), expressions=args, distinct=distinct, order=order, filter=self._filter()
        )
        if self._operator() == "OVER" and (self._word(self._next) or self._next.text == "("):
            raise self._unsupported("OVER is", first, "subscribe to the rows and number them in the application")
        call.meta["name"] = token_span(first)
        return call

    def _arranged(self) -> exp.Order | None:
        """ORDER BY behind the arguments of an aggregate, where the dialect has it."""
        return None

    def _filter(self) -> exp.Expr | None:
        """`FILTER (WHERE …)` after a call."""
        if self._operator() != "FILTER" or self._next.text != "(":
            return None
        self._advance(2)
        self._expect(TokenType.WHERE, "WHERE")
        condition = self._expression()
        self._expect(TokenType.R_PAREN, ")")
        return condition

    def _case(self) -> exp.Expr:
        self._advance()
        base = None if self._match(TokenType.WHEN, advance=False) else self._expression()
        whens = []
        while self._match(TokenType.WHEN):
            condition = self._expression()
            self._expect(TokenType.THEN, "THEN")
            whens.append(exp.If(this=condition, true=self._expression()))
        if not whens:
            self.raise_error("expected WHEN")
        default = self._expression() if self._match(TokenType.ELSE) else None
        self._expect(TokenType.END, "END")
        return exp.Case(this=base, ifs=whens, default=default)


_OPERANDS: dict[TokenType, Callable[[ExpressionReader], exp.Expr]] = {
    TokenType.NUMBER: ExpressionReader._number,
    TokenType.DOT: ExpressionReader._number,
    TokenType.STRING: ExpressionReader._string,
    TokenType.HEX_STRING: ExpressionReader._hex,
    TokenType.NULL: ExpressionReader._constant,
    TokenType.TRUE: ExpressionReader._constant,
    TokenType.FALSE: ExpressionReader._constant,
    TokenType.PLACEHOLDER: ExpressionReader._question_mark,
    TokenType.COLON: ExpressionReader._named_parameter,
    TokenType.PARAMETER: ExpressionReader._named_parameter,
    TokenType.L_PAREN: ExpressionReader._paren,
}
_WORDS: dict[str, Callable[[ExpressionReader], exp.Expr]] = {
    "CASE": ExpressionReader._case,
    "EXISTS": ExpressionReader._exists,
}
