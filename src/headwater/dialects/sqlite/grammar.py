"""SQLite's grammar of expressions, its own precedence and words, on sqlglot's tokens and tree.

sqlglot's reader takes the union of many dialects and binds some operators otherwise than SQLite does: there
`a < b IS NULL` or `a = b < c` would silently mean something else. Every node carries its span of the text in `meta`.
Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parsers.sqlite import SQLiteParser
from sqlglot.tokenizer_core import Token, TokenType

from headwater.model.errors import UnsupportedQuery
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.span import GrammarError, token_span
from headwater.sql.syntax.suggestions import words

E = TypeVar("E", bound=exp.Expr)
ROWS = "ask for the rows themselves"

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
_PREDICATES = frozenset({"IS", "IN", "LIKE", "GLOB", "BETWEEN", "ISNULL", "NOTNULL", "NOT", "MATCH", "REGEXP"})
_RESERVED = words(
    """ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CHECK COLLATE COMMIT CONSTRAINT CREATE DEFAULT DEFERRABLE
    DELETE DISTINCT DROP ELSE ESCAPE EXCEPT EXISTS FOREIGN FROM GROUP HAVING IN INDEX INSERT INTERSECT INTO IS ISNULL
    JOIN LIMIT NOT NOTHING NOTNULL NULL ON OR ORDER PRIMARY REFERENCES RETURNING SELECT SET TABLE THEN TO
    TRANSACTION UNION UNIQUE UPDATE USING VALUES WHEN WHERE"""
)
NEVER_ALIAS = _RESERVED | words("CROSS FULL GLOB INDEXED INNER LEFT LIKE MATCH NATURAL OUTER REGEXP RIGHT WINDOW")


class Expressions(SQLiteParser):
    """Reads expressions with `_tier`; sqlglot's own rules are not reached."""

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self._curr or self._prev
        place = f'syntax error near "{at.text}"' if self._curr or token else "syntax error at the end"
        # sqlglot's own messages speak of its grammar, ours of SQLite's.
        raise GrammarError(f"{place}: {message}" if message.startswith("expected") else place, token_span(at))

    def _unsupported(self, what: str, first: Token, hint: str = ROWS) -> UnsupportedQuery:
        at = first.start, max(self._prev.end, first.end) + 1
        return UnsupportedQuery(f"{what} not supported yet", sql=self.sql, at=at, hint=hint)

    # Operators

    _not, _unary = NOT, UNARY  # how tightly they bind
    _signs: tuple[tuple[TokenType, type[exp.Expr]], ...] = (
        (TokenType.DASH, exp.Neg),
        (TokenType.PLUS, Plus),
        (TokenType.TILDE, exp.BitwiseNot),
    )

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
        for token_type, node in self._signs:
            if self._match(token_type):
                return self._placed(node(this=self._tier(self._unary)), first)
        return self._operand()

    def _tight(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """What binds before any sign between two operands does."""
        if least > COLLATE or not self._match(TokenType.COLLATE):
            return None
        return exp.Collate(this=this, expression=self._name("a collation"))

    def _binary(self, this: exp.Expr, least: int) -> exp.Expr | None:
        sign = self._operator()
        tier, node = BINARY.get(sign, (0, exp.Expr))
        if tier < least or not tier:
            if sign in ("->", "->>") and least <= CONCAT:
                raise self._unsupported(f"{sign} is", self._curr, "take JSON apart in the application")
            return None
        self._advance(2 if sign in ("<<", ">>") else 1)
        return node(this=this, expression=self._tier(tier + 1))

    def _operator(self) -> str:
        """The operator that comes next; sqlglot splits the shifts in two tokens."""
        token, after = self._curr, self._next
        if not token or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return ""
        if token.text in ("<", ">") and after and after.text == token.text and after.start == token.end + 1:
            return token.text * 2
        return token.text.upper()

    def _predicate(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """The postfix and keyword operators of the equality tier."""
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

    def _in(self, this: exp.Expr) -> exp.Expr:
        first = self._curr
        self._expect(TokenType.L_PAREN, "a list in parentheses after IN")
        if self._starts_query():
            return exp.In(this=this, query=self._subquery(first))
        items = [] if self._match(TokenType.R_PAREN, advance=False) else self._parse_csv(lambda: self._tier(OR))
        self._expect(TokenType.R_PAREN, ")")
        return exp.In(this=this, expressions=items)

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
        if not first:
            self.raise_error("expected an expression")
        reader = _OPERAND_READERS.get(first.token_type) or _OPERAND_WORDS.get(first.text.upper())
        if self._quoted(first) or (reader is None and self._word(first)):
            reader = Expressions._named
        if reader is None and first.text[:1] == "$":
            reader = Expressions._dollar
        if reader is None:
            self.raise_error("expected an expression")
        assert reader is not None
        return self._placed(reader(self), first)

    def _number(self) -> exp.Expr:
        first = self._curr
        self._advance()
        if first.token_type == TokenType.DOT:
            if self._curr.token_type != TokenType.NUMBER or not self._touches(self._curr):
                self.raise_error("expected an expression", first)
            self._advance()
        if self._touches(self._curr):
            raise GrammarError(f'unrecognized token "{self.sql[first.start : self._curr.end + 1]}"', token_span(first))
        return exp.Literal(this=self.sql[first.start : self._prev.end + 1], is_string=False)

    def _touches(self, token: Token) -> bool:
        return (
            bool(token) and token.start == self._prev.end + 1 and (token.text[:1].isalnum() or token.text[:1] in "_.$")
        )

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
        """`$1` is the first parameter, as in PostgreSQL; `$name` a named one."""
        self._advance()
        name = self._prev.text[1:]
        return exp.Placeholder(this=int(name) if name.isdigit() else name, kind="$")

    def _paren(self) -> exp.Expr:
        """Parentheses leave no node behind, as in SQLite, where `(a)` is still the column."""
        first = self._curr
        self._advance()
        if self._starts_query():
            return self._subquery(first)
        this = self._tier(OR)
        if self._match(TokenType.COMMA, advance=False):
            raise self._unsupported("a row value is", first, "compare the columns one by one")
        self._expect(TokenType.R_PAREN, ")")
        return this

    def _starts_query(self) -> bool:
        return self._operator() in ("SELECT", "WITH", "VALUES")

    def _subquery(self, first: Token) -> exp.Subquery:
        """A query whose parenthesis is open already."""
        query = self._query()
        self._expect(TokenType.R_PAREN, ")")
        return self._placed(exp.Subquery(this=query), first)

    def _query(self) -> exp.Expr:
        """The grammar of statements knows what a query is."""
        raise self._unsupported("a subquery is", self._curr)

    def _skip_to_close(self) -> None:
        depth = 1
        while self._curr and depth:
            depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
            self._advance()

    def _exists(self) -> exp.Expr:
        first = self._curr
        self._advance()
        self._expect(TokenType.L_PAREN, "( after EXISTS")
        if not self._starts_query():
            self.raise_error("expected SELECT", self._curr)
        return exp.Exists(this=self._subquery(first))

    def _case(self) -> exp.Expr:
        self._advance()
        base = None if self._match(TokenType.WHEN, advance=False) else self._tier(OR)
        whens = []
        while self._match(TokenType.WHEN):
            condition = self._tier(OR)
            self._expect(TokenType.THEN, "THEN")
            whens.append(exp.If(this=condition, true=self._tier(OR)))
        if not whens:
            self.raise_error("expected WHEN")
        default = self._tier(OR) if self._match(TokenType.ELSE) else None
        self._expect(TokenType.END, "END")
        return exp.Case(this=base, ifs=whens, default=default)

    def _cast(self) -> exp.Expr:
        self._advance()
        self._expect(TokenType.L_PAREN, "( after CAST")
        this = self._tier(OR)
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
            args = self._parse_csv(lambda: self._tier(OR))
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
        condition = self._tier(OR)
        self._expect(TokenType.R_PAREN, ")")
        return condition

    # Tokens

    def _name(self, what: str) -> exp.Identifier:
        token = self._curr
        if not self._word(token):
            self.raise_error(f"expected {what}")
        self._advance()
        name = exp.Identifier(this=self._spelling(token), quoted=self._quoted(token))
        return name.update_positions(token)

    def _spelling(self, token: Token) -> str:
        """A name as it is meant."""
        return token.text

    def _word(self, token: Token) -> bool:
        """Whether a token may be a name: quoted, or a word SQLite does not reserve."""
        if not token or token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING):
            return False
        if self._quoted(token):
            return True
        text = token.text
        begins = text[:1].isalpha() or text[:1] == "_" or text[:1] > "\x7f"
        # sqlglot makes one token of ORDER BY and its like: no name has a space in it.
        return begins and " " not in text and text.upper() not in _RESERVED

    def _quoted(self, token: Token) -> bool:
        """sqlglot also calls `0x` an identifier."""
        return token.token_type == TokenType.IDENTIFIER and self.sql[token.start] in '"[`'

    def _match_not(self) -> bool:
        """sqlglot reads `!` as NOT, SQLite does not."""
        found = self._operator() == "NOT"
        if found:
            self._advance()
        return found

    def _peek(self, ahead: int) -> Token:
        place = self._index + ahead
        return self._tokens[place] if place < len(self._tokens) else self._curr

    def _expect(self, token_type: TokenType, what: str) -> None:
        if not self._match(token_type):
            self.raise_error(f"expected {what}")

    def _placed(self, node: E, first: Token) -> E:
        """The node with its span, from `first` to the token just read. A node already placed grows by its parens."""
        start, end = first.start, self._prev.end
        return node.update_positions(start=start, end=end, line=first.line, col=first.col)


_PREDICATE_READERS: dict[str, Callable[[Expressions, exp.Expr], exp.Expr]] = {
    "IS": Expressions._is,
    "IN": Expressions._in,
    "LIKE": Expressions._like,
    "GLOB": Expressions._glob,
    "MATCH": Expressions._matched,
    "REGEXP": Expressions._matched,
    "BETWEEN": Expressions._between,
    "ISNULL": Expressions._null_test,
    "NULL": Expressions._null_test,
    "NOTNULL": Expressions._not_null_test,
}
_OPERAND_READERS: dict[TokenType, Callable[[Expressions], exp.Expr]] = {
    TokenType.NUMBER: Expressions._number,
    TokenType.DOT: Expressions._number,
    TokenType.STRING: Expressions._string,
    TokenType.HEX_STRING: Expressions._hex,
    TokenType.NULL: Expressions._constant,
    TokenType.TRUE: Expressions._constant,
    TokenType.FALSE: Expressions._constant,
    TokenType.PLACEHOLDER: Expressions._question_mark,
    TokenType.COLON: Expressions._named_parameter,
    TokenType.PARAMETER: Expressions._named_parameter,
    TokenType.L_PAREN: Expressions._paren,
}
_OPERAND_WORDS: dict[str, Callable[[Expressions], exp.Expr]] = {
    "CASE": Expressions._case,
    "CAST": Expressions._cast,
    "EXISTS": Expressions._exists,
}
