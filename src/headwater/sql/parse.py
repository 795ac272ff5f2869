"""Text to syntax tree: sqlglot reads the statement, expressions are read with SQLite's own precedence and words.

Every node of an expression carries its span of the text in `meta`. Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.sqlite import SQLiteParser
from sqlglot.tokenizer_core import Token, TokenType

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.sql.names import words

Span = tuple[int, int]
E = TypeVar("E", bound=exp.Expr)

OR, AND, NOT, EQUALITY, ORDERING, BITS, SUM, PRODUCT, CONCAT, COLLATE, UNARY = range(1, 12)

_BINARY: dict[str, tuple[int, type[exp.Expr]]] = {
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
    """ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CAST CHECK COLLATE COMMIT CONSTRAINT CREATE DEFAULT DEFERRABLE
    DELETE DISTINCT DROP ELSE ESCAPE EXCEPT EXISTS FOREIGN FROM GROUP HAVING IN INDEX INSERT INTERSECT INTO IS ISNULL
    JOIN LIMIT NOT NOTHING NOTNULL NULL ON OR ORDER PRIMARY RAISE REFERENCES RETURNING SELECT SET TABLE THEN TO
    TRANSACTION UNION UNIQUE UPDATE USING VALUES WHEN WHERE"""
)
_NEVER_ALIAS = _RESERVED | words("CROSS FULL GLOB INDEXED INNER LEFT LIKE MATCH NATURAL OUTER REGEXP RIGHT WINDOW")
_WRITES = words("INSERT UPDATE DELETE REPLACE CREATE ALTER DROP PRAGMA ATTACH DETACH VACUUM ANALYZE BEGIN")


class Plus(exp.Unary):
    """`+x`: the value of x without its affinity. sqlglot has no node for it."""


class _Wrong(ParseError):
    """A syntax error with its place."""

    def __init__(self, message: str, at: Span) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Parsed:
    select: exp.Select
    sql: str
    tokens: tuple[Token, ...]

    def keyword(self, *words: str, after: int = 0) -> Span | None:
        """Where a word of the statement stands, outside all parentheses and at or past a place."""
        depth = 0
        for token in self.tokens:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            plain = depth == 0 and token.token_type != TokenType.IDENTIFIER
            if plain and token.start >= after and token.text.upper() in words:
                return _span(token)
        return None


def parse(sql: str) -> Parsed:
    """One SELECT statement, or `SqlError` with the place where it goes wrong."""
    tokens = _tokens(sql)
    _refuse_others(tokens, sql)
    parser = _Parser(dialect=SQLite())
    try:
        trees = parser._parse(lambda self: self._parse_select(), tokens, sql)
    except _Wrong as wrong:
        raise SqlError(str(wrong), sql=sql, at=wrong.at) from None
    except RecursionError:
        raise SqlError("the expression is nested too deeply", sql=sql, at=(0, len(sql))) from None
    tree = trees[0]
    if isinstance(tree, exp.SetOperation):
        raise _refusal("UNION, INTERSECT and EXCEPT are", sql, _set_operator(tokens))
    if not isinstance(tree, exp.Select):
        raise SqlError("expected a SELECT", sql=sql, at=_span(tokens[0]))
    return Parsed(tree, sql, tuple(tokens))


def span(node: exp.Expr) -> Span | None:
    """The characters of the text a node stands for."""
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is not None and end is not None:
        return start, end + 1
    inner = [found for child in node.iter_expressions() if (found := span(child))]
    return (min(at for at, _ in inner), max(to for _, to in inner)) if inner else None


def _span(token: Token) -> Span:
    return token.start, token.end + 1


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
            raise UnsupportedQuery(
                "expected one statement, found several", sql=sql, at=_span(token), hint="subscribe to each by itself"
            )
    if word in ("WITH", "VALUES"):
        raise _refusal(f"{word} is", sql, _span(first))
    if word in _WRITES:
        raise UnsupportedQuery(
            f"expected a SELECT, found {word}", sql=sql, at=_span(first), hint="only the result of a SELECT can be live"
        )
    if first.token_type != TokenType.SELECT:
        raise SqlError(f'expected a SELECT, found "{first.text}"', sql=sql, at=_span(first))


def _set_operator(tokens: list[Token]) -> Span | None:
    words = ("UNION", "INTERSECT", "EXCEPT")
    return next((_span(token) for token in tokens if token.text.upper() in words), None)


def _refusal(what: str, sql: str, at: Span | None, hint: str = "ask for the rows of one table") -> UnsupportedQuery:
    return UnsupportedQuery(f"{what} not supported yet", sql=sql, at=at, hint=hint)


class _Parser(SQLiteParser):
    """sqlglot's reader of statements; everything that is an expression goes through `_tier`.

    sqlglot accepts the union of many dialects and binds some operators otherwise than SQLite does.
    """

    def raise_error(self, message: str, token: Token | None = None) -> None:
        at = token or self._curr or self._prev
        place = f'syntax error near "{at.text}"' if self._curr else "syntax error at the end"
        # sqlglot's own messages speak of its grammar, ours of SQLite's.
        raise _Wrong(f"{place}: {message}" if message.startswith("expected") else place, _span(at))

    def _unsupported(self, what: str, first: Token, hint: str = "ask for the rows of one table") -> UnsupportedQuery:
        return _refusal(what, self.sql, (first.start, self._prev.end + 1), hint)

    # The result columns

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        return self._parse_csv(self._result_column), None

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
        return self._parse_alias(this)

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr:
        assert this is not None
        as_ = self._match(TokenType.ALIAS)
        token = self._curr
        named = token and (token.token_type == TokenType.STRING or self._word(token))
        if not named or (not as_ and token.text.upper() in _NEVER_ALIAS and token.token_type != TokenType.IDENTIFIER):
            if as_:
                self.raise_error("expected a name after AS")
            return this
        self._advance()
        alias = exp.to_identifier(token.text, quoted=True).update_positions(token)
        return exp.Alias(this=this, alias=alias)

    # Expressions

    def _parse_assignment(self) -> exp.Expr:
        return self._tier(OR)

    _parse_disjunction = _parse_conjunction = _parse_bitwise = _parse_unary = _parse_assignment

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr:
        return self._tier(OR)

    def _tier(self, least: int) -> exp.Expr:
        """An operand and all operators after it that bind at least as tightly as `least`."""
        first = self._curr
        this = self._prefixed()
        while True:
            after = self._collated(this, least) or self._binary(this, least) or self._predicate(this, least)
            if after is None:
                return this
            this = self._placed(after, first)

    def _prefixed(self) -> exp.Expr:
        first = self._curr
        if self._match(TokenType.NOT):
            return self._placed(exp.Not(this=self._tier(NOT)), first)
        for token_type, node in ((TokenType.DASH, exp.Neg), (TokenType.PLUS, Plus), (TokenType.TILDE, exp.BitwiseNot)):
            if self._match(token_type):
                return self._placed(node(this=self._prefixed_tightly()), first)
        return self._operand()

    def _prefixed_tightly(self) -> exp.Expr:
        return self._tier(UNARY)

    def _collated(self, this: exp.Expr, least: int) -> exp.Expr | None:
        if least > COLLATE or not self._match(TokenType.COLLATE):
            return None
        return exp.Collate(this=this, expression=self._name("a collation"))

    def _binary(self, this: exp.Expr, least: int) -> exp.Expr | None:
        sign = self._operator()
        tier, node = _BINARY.get(sign, (0, exp.Expr))
        if tier < least or not tier:
            if sign in ("->", "->>") and least <= CONCAT:
                raise _refusal(f"{sign} is", self.sql, _span(self._curr), "take JSON apart in the application")
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
        negated = bool(self._match(TokenType.NOT))
        if self._match(TokenType.DISTINCT):
            self._expect(TokenType.FROM, "FROM after IS DISTINCT")
            negated = not negated
            # IS TRUE asks for truth, IS NOT DISTINCT FROM TRUE as well: SQLite reads them as one.
        compared = exp.Is(this=this, expression=self._tier(ORDERING))
        return exp.Not(this=compared) if negated else compared

    def _in(self, this: exp.Expr) -> exp.Expr:
        first = self._curr
        self._expect(TokenType.L_PAREN, "a list in parentheses after IN")
        self._refuse_subquery(first)
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
        if first.token_type == TokenType.IDENTIFIER or (reader is None and self._word(first)):
            reader = _Parser._named
        if reader is None and first.text[:1] == "$":
            reader = _Parser._dollar
        if reader is None:
            self.raise_error("expected an expression")
        assert reader is not None
        return self._placed(reader(self), first)

    def _number(self) -> exp.Expr:
        first = self._curr
        self._advance(2 if first.token_type == TokenType.DOT else 1)
        if self._touches(self._curr):
            raise _Wrong(f'unrecognized token "{self.sql[first.start : self._curr.end + 1]}"', _span(first))
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
        self._refuse_subquery(first)
        this = self._tier(OR)
        if self._match(TokenType.COMMA, advance=False):
            raise self._unsupported("a row value is", first, "compare the columns one by one")
        self._expect(TokenType.R_PAREN, ")")
        return this

    def _refuse_subquery(self, first: Token) -> None:
        if self._curr and self._curr.text.upper() in ("SELECT", "WITH", "VALUES") and not self._quoted(self._curr):
            self._skip_to_close()
            raise self._unsupported("a subquery is", first)

    def _skip_to_close(self) -> None:
        depth = 1
        while self._curr and depth:
            depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
            self._advance()

    def _exists(self) -> exp.Expr:
        first = self._curr
        self._advance(2)
        self._skip_to_close()
        raise self._unsupported("EXISTS is", first)

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
            self._skip_to_close()
        self._expect(TokenType.R_PAREN, ")")
        return exp.Cast(this=this, to=exp.Var(this=" ".join(words)))

    def _named(self) -> exp.Expr:
        """A column, or a function where a parenthesis follows."""
        first = self._curr
        if self._next and self._next.token_type == TokenType.L_PAREN:
            return self._call()
        parts = [self._name("a name")]
        while self._match(TokenType.DOT):
            parts.append(self._name("a name after the dot"))
        if len(parts) > 3:
            raise _Wrong("syntax error: a column has at most a schema and a table before it", _span(first))
        schema, table, name = [None] * (3 - len(parts)) + parts
        return exp.Column(this=name, table=table, db=schema)

    def _call(self) -> exp.Expr:
        first = self._curr
        self._advance(2)
        if self._match(TokenType.STAR):
            args: list[exp.Expr] = [exp.Star()]
        elif self._match(TokenType.R_PAREN, advance=False):
            args = []
        else:
            self._match(TokenType.DISTINCT)
            args = self._parse_csv(lambda: self._tier(OR))
        self._expect(TokenType.R_PAREN, ")")
        if self._operator() in ("OVER", "FILTER") and (self._word(self._next) or self._next.text == "("):
            raise self._unsupported(f"{self._operator()} is", first)
        call = exp.Anonymous(this=first.text, expressions=args)
        call.meta["name"] = _span(first)
        return call

    # Tokens

    def _name(self, what: str) -> exp.Identifier:
        token = self._curr
        if not self._word(token):
            self.raise_error(f"expected {what}")
        self._advance()
        name = exp.Identifier(this=token.text, quoted=self._quoted(token))
        return name.update_positions(token)

    def _word(self, token: Token) -> bool:
        """Whether a token may be a name: quoted, or a word SQLite does not reserve."""
        if not token or token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING):
            return False
        if self._quoted(token):
            return True
        text = token.text
        return (text[:1].isalpha() or text[:1] == "_" or text[:1] > "\x7f") and text.upper() not in _RESERVED

    def _quoted(self, token: Token) -> bool:
        return token.token_type == TokenType.IDENTIFIER

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


_PREDICATE_READERS: dict[str, Callable[[_Parser, exp.Expr], exp.Expr]] = {
    "IS": _Parser._is,
    "IN": _Parser._in,
    "LIKE": _Parser._like,
    "GLOB": _Parser._glob,
    "MATCH": _Parser._matched,
    "REGEXP": _Parser._matched,
    "BETWEEN": _Parser._between,
    "ISNULL": _Parser._null_test,
    "NULL": _Parser._null_test,
    "NOTNULL": _Parser._not_null_test,
}
_OPERAND_READERS: dict[TokenType, Callable[[_Parser], exp.Expr]] = {
    TokenType.NUMBER: _Parser._number,
    TokenType.DOT: _Parser._number,
    TokenType.STRING: _Parser._string,
    TokenType.HEX_STRING: _Parser._hex,
    TokenType.NULL: _Parser._constant,
    TokenType.TRUE: _Parser._constant,
    TokenType.FALSE: _Parser._constant,
    TokenType.PLACEHOLDER: _Parser._question_mark,
    TokenType.COLON: _Parser._named_parameter,
    TokenType.PARAMETER: _Parser._named_parameter,
    TokenType.L_PAREN: _Parser._paren,
}
_OPERAND_WORDS: dict[str, Callable[[_Parser], exp.Expr]] = {
    "CASE": _Parser._case,
    "CAST": _Parser._cast,
    "EXISTS": _Parser._exists,
}
