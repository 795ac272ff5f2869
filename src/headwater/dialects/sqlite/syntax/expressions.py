"""SQLite's grammar of expressions: its operators with their precedence, its predicates, casts and reserved words."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.sql.syntax.expression import ExpressionReader
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.suggestions import words

OR, AND, NOT, EQUALITY, ORDERING, BITS, SUM, PRODUCT, CONCAT, COLLATE, UNARY = range(1, 12)

BINARY: dict[str, tuple[int, type[exp.Expr]]] = {
    "OR": (OR, exp.Or),
    "AND": (AND, exp.And),
    "=": (EQUALITY, exp.EQ),
    "==": (EQUALITY, exp.EQ),
    "<>": (EQUALITY, exp.NEQ),
    "!=": (EQUALITY, exp.NEQ),
    "<": (ORDERING, exp.LT),
    "<=": (ORDERING, exp.LTE),
    ">": (ORDERING, exp.GT),
    ">=": (ORDERING, exp.GTE),
    "&": (BITS, exp.BitwiseAnd),
    "|": (BITS, exp.BitwiseOr),
    "<<": (BITS, exp.BitwiseLeftShift),
    ">>": (BITS, exp.BitwiseRightShift),
    "+": (SUM, exp.Add),
    "-": (SUM, exp.Sub),
    "*": (PRODUCT, exp.Mul),
    "/": (PRODUCT, exp.Div),
    "%": (PRODUCT, exp.Mod),
    "||": (CONCAT, exp.DPipe),
}
_SHIFTS, _ARROWS = ("<<", ">>"), ("->", "->>")
_PREDICATES = frozenset({"IS", "IN", "LIKE", "GLOB", "BETWEEN", "ISNULL", "NOTNULL", "NOT", "MATCH", "REGEXP"})
RESERVED = words(
    """ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CHECK COLLATE COMMIT CONSTRAINT CREATE DEFAULT DEFERRABLE
    DELETE DISTINCT DROP ELSE ESCAPE EXCEPT EXISTS FOREIGN FROM GROUP HAVING IN INDEX INSERT INTERSECT INTO IS ISNULL
    JOIN LIMIT NOT NOTHING NOTNULL NULL ON OR ORDER PRIMARY REFERENCES RETURNING SELECT SET TABLE THEN TO
    TRANSACTION UNION UNIQUE UPDATE USING VALUES WHEN WHERE"""
)


class SqliteExpressions(ExpressionReader):
    _quotes, _reserved = '"[`', RESERVED
    _no_names = (TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING)
    _binaries, _not, _unary = BINARY, NOT, UNARY
    _prefixes = (
        (TokenType.DASH, exp.Neg),
        (TokenType.PLUS, Plus),
        (TokenType.TILDE, exp.BitwiseNot),
    )

    # Operators

    def _tight(self, this: exp.Expr, least: int) -> exp.Expr | None:
        if least > COLLATE or not self._match(TokenType.COLLATE):
            return None
        return exp.Collate(this=this, expression=self._name("a collation"))

    def _binary(self, this: exp.Expr, least: int) -> exp.Expr | None:
        if least <= CONCAT and self._operator() in _ARROWS:
            raise self._unsupported(f"{self._operator()} is", self._curr, "take JSON apart in the application")
        return super()._binary(this, least)

    def _sign(self, token: Token) -> str:
        """sqlglot splits the shifts in two tokens."""
        after = self._next
        if token.text in ("<", ">") and after and after.text == token.text and after.start == token.end + 1:
            return token.text * 2
        return super()._sign(token)

    def _token_count(self, sign: str) -> int:
        return 2 if sign in _SHIFTS else 1

    def _predicate(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """All of the equality tier."""
        first, word = self._curr, self._operator()
        if least > EQUALITY or word not in _PREDICATES:
            return None
        self._advance()
        if word == "NOT":
            inner = self._next_predicate(this)
            return exp.Not(this=self._placed(inner, first))
        return _PREDICATE_READERS[word](self, this)

    def _next_predicate(self, this: exp.Expr) -> exp.Expr:
        word = self._operator()
        if word not in ("IN", "LIKE", "GLOB", "BETWEEN", "NULL", "MATCH", "REGEXP"):
            self.raise_error("expected IN, LIKE, GLOB, BETWEEN or NULL after NOT")
        self._advance()
        return _PREDICATE_READERS[word](self, this)

    def _null_test(self, this: exp.Expr) -> exp.Expr:
        return exp.Is(this=this, expression=self._placed(exp.Null(), self._prev))

    def _not_null_test(self, this: exp.Expr) -> exp.Expr:
        return exp.Not(this=self._null_test(this))

    def _is(self, this: exp.Expr) -> exp.Expr:
        negated = self._match_not()
        if self._match(TokenType.DISTINCT):
            self._expect(TokenType.FROM, "FROM after IS DISTINCT")
            negated = not negated
            # IS TRUE asks for truth, IS NOT DISTINCT FROM TRUE as well: SQLite reads them as one.
        compared = exp.Is(this=this, expression=self._tier(ORDERING))
        return exp.Not(this=compared) if negated else compared

    def _like(self, this: exp.Expr) -> exp.Expr:
        like = exp.Like(this=this, expression=self._tier(ORDERING))
        if not self._match(TokenType.ESCAPE):
            return like
        return exp.Escape(this=like, expression=self._tier(ORDERING))

    def _glob(self, this: exp.Expr) -> exp.Expr:
        return exp.Glob(this=this, expression=self._tier(ORDERING))

    def _matched(self, this: exp.Expr) -> exp.Expr:
        raise self._unsupported(f"{self._prev.text.upper()} is", self._prev, "use LIKE or GLOB")

    def _between(self, this: exp.Expr) -> exp.Expr:
        low = self._tier(NOT)
        self._expect(TokenType.AND, "AND after BETWEEN")
        return exp.Between(this=this, low=low, high=self._tier(ORDERING))

    # Operands

    def _operand(self) -> exp.Expr:
        first = self._curr
        return self._placed(self._cast(), first) if self._operator() == "CAST" else super()._operand()

    def _cast(self) -> exp.Expr:
        self._advance()
        self._expect(TokenType.L_PAREN, "( after CAST")
        this = self._expression()
        self._expect(TokenType.ALIAS, "AS")
        words = [self._name("a type").name]
        while self._word(self._curr):
            words.append(self._name("a type").name)
        if self._match(TokenType.L_PAREN):
            self._parse_csv(self._size)
            self._expect(TokenType.R_PAREN, ")")
        self._expect(TokenType.R_PAREN, ")")
        return exp.Cast(this=this, to=exp.Var(this=" ".join(words)))

    def _size(self) -> exp.Expr:
        """A number in `VARCHAR(10)` or `DECIMAL(10, -2)`: it means nothing to SQLite."""
        _ = self._match(TokenType.DASH) or self._match(TokenType.PLUS)
        self._expect(TokenType.NUMBER, "a number")
        return exp.Null()


_PREDICATE_READERS: dict[str, Callable[[SqliteExpressions, exp.Expr], exp.Expr]] = {
    "IS": SqliteExpressions._is,
    "IN": SqliteExpressions._in,
    "LIKE": SqliteExpressions._like,
    "GLOB": SqliteExpressions._glob,
    "MATCH": SqliteExpressions._matched,
    "REGEXP": SqliteExpressions._matched,
    "BETWEEN": SqliteExpressions._between,
    "ISNULL": SqliteExpressions._null_test,
    "NULL": SqliteExpressions._null_test,
    "NOTNULL": SqliteExpressions._not_null_test,
}
