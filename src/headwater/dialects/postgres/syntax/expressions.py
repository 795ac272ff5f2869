"""PostgreSQL's grammar of expressions: its operators with their precedence, its predicates, casts and names.

Only what stands in `docs/sql.md` is read; whatever else PostgreSQL takes is refused, and so asked of it. It is never
read as something else: the text was prepared at the source before.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.sql.syntax.expression import ExpressionReader
from headwater.sql.syntax.nodes import Plus
from headwater.sql.syntax.span import token_span
from headwater.sql.syntax.suggestions import words

OR, AND, NOT, IS, COMPARISON, MATCH, OTHER, SUM, PRODUCT, COLLATE, UNARY, CAST = range(1, 13)

BINARY: dict[str, tuple[int, type[exp.Expr]]] = {
    "OR": (OR, exp.Or),
    "AND": (AND, exp.And),
    "=": (COMPARISON, exp.EQ),
    "<>": (COMPARISON, exp.NEQ),
    "!=": (COMPARISON, exp.NEQ),
    "<": (COMPARISON, exp.LT),
    "<=": (COMPARISON, exp.LTE),
    ">": (COMPARISON, exp.GT),
    ">=": (COMPARISON, exp.GTE),
    "||": (OTHER, exp.DPipe),
    "~": (OTHER, exp.RegexpLike),
    "~*": (OTHER, exp.RegexpILike),
    "->": (OTHER, exp.JSONExtract),
    "->>": (OTHER, exp.JSONExtractScalar),
    "#>": (OTHER, exp.JSONBExtract),
    "#>>": (OTHER, exp.JSONBExtractScalar),
    "@>": (OTHER, exp.ArrayContainsAll),
    "<@": (OTHER, exp.ArrayContainedBy),
    "&&": (OTHER, exp.ArrayOverlaps),
    "?": (OTHER, exp.JSONBContains),
    "+": (SUM, exp.Add),
    "-": (SUM, exp.Sub),
    "*": (PRODUCT, exp.Mul),
    "/": (PRODUCT, exp.Div),
    "%": (PRODUCT, exp.Mod),
}
_MATCHES = ("IN", "LIKE", "ILIKE", "SIMILAR TO", "BETWEEN")
RESERVED = words(
    """ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE
    CURRENT_CATALOG CURRENT_DATE CURRENT_ROLE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DEFAULT DEFERRABLE DESC
    DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FROM GRANT GROUP HAVING IN INITIALLY INTERSECT INTO LATERAL
    LEADING LIMIT LOCALTIME LOCALTIMESTAMP NOT NULL OFFSET ON ONLY OR ORDER PLACING PRIMARY REFERENCES RETURNING SELECT
    SESSION_USER SOME SYMMETRIC TABLE THEN TO TRAILING TRUE UNION UNIQUE USER USING VARIADIC WHEN WHERE WINDOW WITH
    ROW INTERVAL TABLESAMPLE OVERLAPS SIMILAR"""
)
_TYPED = words("DATE TIME TIMESTAMP TIMESTAMPTZ INTERVAL UUID")
_EVERY = words("ANY SOME ALL")
_FIELDS = words("YEAR MONTH DAY HOUR MINUTE SECOND")
_FOLDED = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
NO_NAMES = (
    TokenType.STRING,
    TokenType.NUMBER,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
    TokenType.BYTE_STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEREDOC_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
)


class PostgresExpressions(ExpressionReader):
    """Refuses words that are no names as such."""

    _quotes, _reserved, _no_names = '"', RESERVED, NO_NAMES
    _binaries, _not, _unary = BINARY, NOT, UNARY
    _prefixes = ((TokenType.DASH, exp.Neg), (TokenType.PLUS, Plus))

    def _spelling(self, token: Token) -> str:
        """Folded to small letters, those of ASCII, unless quoted."""
        return token.text if self._quoted(token) else token.text.translate(_FOLDED)

    def _sign(self, token: Token) -> str:
        return _upper(token)

    # Operators

    def _tight(self, this: exp.Expr, least: int) -> exp.Expr | None:
        """`x::type`, `x COLLATE name` and `x AT TIME ZONE zone`."""
        if self._match(TokenType.DCOLON):
            return exp.Cast(this=this, to=self._type())
        if self._match(TokenType.L_BRACKET):
            return self._subscripted(this)
        if least <= COLLATE and self._match(TokenType.COLLATE):
            return exp.Collate(this=this, expression=self._name("a collation"))
        if least <= COLLATE and self._words("AT", "TIME", "ZONE"):
            return exp.AtTimeZone(this=this, zone=self._tier(COLLATE))
        return None

    def _subscripted(self, this: exp.Expr) -> exp.Expr:
        """`x[1]`; a slice is none."""
        first, place = self._curr, self._expression()
        if not self._match(TokenType.R_BRACKET):
            raise self._unsupported("a slice is", first)
        return exp.Bracket(this=this, expressions=[place])

    def _words(self, *words: str) -> bool:
        """Whether these come next; then they are read."""
        found = all(self._peek(place).text.upper() == word for place, word in enumerate(words))
        if found:
            self._advance(len(words))
        return found

    def _binary(self, this: exp.Expr, least: int) -> exp.Expr | None:
        first = self._curr
        if self._operator() == "!" and least <= OTHER and self._next and self._next.text in ("~", "~*"):
            self._advance()
            matched = self._binary(this, least)
            return None if matched is None else exp.Not(this=self._placed(matched, first))
        return super()._binary(this, least)

    def _right(self, this: exp.Expr, node: type[exp.Expr], tier: int) -> exp.Expr:
        if self._operator() in _EVERY and self._next and self._next.token_type == TokenType.L_PAREN:
            return self._each(this, node)
        return super()._right(this, node, tier)

    def _each(self, this: exp.Expr, node: type[exp.Expr]) -> exp.Expr:
        """`= ANY (…)` is IN, and `<> ALL (…)` is NOT IN: of a query, or of the elements of an array."""
        first, every = self._curr, self._operator() == "ALL"
        if node is not (exp.NEQ if every else exp.EQ):
            raise self._unsupported(f"{self._operator()} is", first)
        self._advance(2)
        if self._starts_query():
            return self._negated(every, self._placed(exp.In(this=this, query=self._subquery(first)), first))
        array = self._expression()
        self._expect(TokenType.R_PAREN, ")")
        return self._negated(every, self._placed(exp.In(this=this, field=array), first))

    def _predicate(self, this: exp.Expr, least: int) -> exp.Expr | None:
        first, word = self._curr, self._operator()
        if least <= IS and word in ("IS", "ISNULL", "NOTNULL"):
            self._advance()
            return self._is(this) if word == "IS" else self._negated(word == "NOTNULL", _null(this))
        negated = word == "NOT" and _upper(self._next) in _MATCHES
        if least > MATCH or not (negated or word in _MATCHES):
            return None
        self._advance(2 if negated else 1)
        return self._negated(negated, self._placed(self._matching(this), first))

    @staticmethod
    def _negated(negated: bool, node: exp.Expr) -> exp.Expr:
        return exp.Not(this=node) if negated else node

    def _matching(self, this: exp.Expr) -> exp.Expr:
        match _upper(self._prev):
            case "IN":
                return self._in(this)
            case "BETWEEN":
                low = self._tier(OTHER)
                self._expect(TokenType.AND, "AND after BETWEEN")
                return _between(this, low, self._tier(OTHER))
            case "SIMILAR TO":
                return exp.SimilarTo(this=this, expression=self._tier(OTHER))
            case word:
                node = exp.Like if word == "LIKE" else exp.ILike
                like = node(this=this, expression=self._tier(OTHER))
                return exp.Escape(this=like, expression=self._tier(OTHER)) if self._match(TokenType.ESCAPE) else like

    def _is(self, this: exp.Expr) -> exp.Expr:
        negated, first = self._match_not(), self._curr
        if self._match(TokenType.DISTINCT):
            self._expect(TokenType.FROM, "FROM after IS DISTINCT")
            node = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return node(this=this, expression=self._tier(COMPARISON))
        word = self._operator()
        if word not in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            raise self._unsupported(f"IS {word} is", first)
        self._advance()
        asked = exp.Null() if word in ("NULL", "UNKNOWN") else exp.Boolean(this=word == "TRUE")
        return self._negated(negated, exp.Is(this=this, expression=self._placed(asked, first)))

    # Operands

    def _operand(self) -> exp.Expr:
        first = self._curr
        if first and first.token_type == TokenType.PARAMETER:
            return self._placed(self._numbered(), first)
        if first and first.token_type == TokenType.STRING and self.sql[first.start] != "'":
            raise self._unsupported("this form of a string is", first, "write it in plain quotes")
        if first and first.token_type == TokenType.HEX_STRING:
            raise self._unsupported("a number or string of bits is", first)
        if self._operator() == "CAST":
            return self._placed(self._cast(), first)
        if self._operator() == "ARRAY" and self._next.text == "[":
            return self._placed(self._array(), first)
        if self._operator() == "EXTRACT" and self._next.text == "(":
            return self._placed(self._extract(), first)
        if self._operator() == "POSITION" and self._next.text == "(":
            return self._placed(self._position(), first)
        if self._is_typed():
            return self._placed(self._typed(), first)
        return super()._operand()

    def _array(self) -> exp.Expr:
        self._advance(2)
        items = self._parse_csv(self._expression)
        self._expect(TokenType.R_BRACKET, "]")
        return exp.Array(expressions=items)

    def _extract(self) -> exp.Expr:
        """`extract(year FROM x)`: a function of a text and a moment."""
        first = self._curr
        self._advance(2)
        field = exp.Literal.string(self._curr.text.lower())
        self._advance()
        self._expect(TokenType.FROM, "FROM")
        call = exp.Anonymous(this="extract", expressions=[field, self._expression()], distinct=False)
        self._expect(TokenType.R_PAREN, ")")
        call.meta["name"] = token_span(first)
        return call

    def _position(self) -> exp.Expr:
        """`position(part IN text)` is `strpos(text, part)`."""
        first = self._curr
        self._advance(2)
        part = self._tier(OTHER)
        self._expect(TokenType.IN, "IN")
        call = exp.Anonymous(this="strpos", expressions=[self._tier(OTHER), part], distinct=False)
        self._expect(TokenType.R_PAREN, ")")
        call.meta["name"] = token_span(first)
        return call

    def _is_typed(self) -> bool:
        """`date '2024-01-01'`."""
        zoned = self._next and self._next.text.upper() in ("WITH", "WITHOUT")
        string = self._peek(4) if zoned else self._next
        return self._operator() in _TYPED and bool(string) and string.token_type == TokenType.STRING

    def _typed(self) -> exp.Expr:
        to, first = self._type(), self._curr
        text = self._placed(self._operand(), first)
        if to.name == "interval" and self._operator() in _FIELDS:
            raise self._unsupported("an interval of fields is", first, "write the unit into the string")
        return exp.Cast(this=text, to=to)

    def _numbered(self) -> exp.Expr:
        """`$1`."""
        self._advance(2)
        if not self._prev.text.isdigit():
            self.raise_error("expected a number after $")
        return exp.Placeholder(this=int(self._prev.text), kind="$")

    def _cast(self) -> exp.Expr:
        self._advance()
        self._expect(TokenType.L_PAREN, "( after CAST")
        this = self._expression()
        self._expect(TokenType.ALIAS, "AS")
        to = self._type()
        self._expect(TokenType.R_PAREN, ")")
        return exp.Cast(this=this, to=to)

    def _type(self) -> exp.Var:
        """A type's name in small letters; with a length, brackets or a schema it is one we do not know."""
        first, name = self._curr, ""
        if first and first.token_type not in (TokenType.STRING, TokenType.NUMBER):
            self._advance()
            name = first.text.lower() + self._precision(first.text.lower())
        if name in ("time", "timestamp"):
            zoned = next((word for word in ("with", "without") if self._words(word.upper(), "TIME", "ZONE")), None)
            name += f" {zoned} time zone" if zoned else ""
        if name and self._curr and self._curr.text == "[" and self._next.text == "]":
            self._advance(2)
            name += "[]"
        follows = self._curr and (self._curr.text in ("(", "[", ".") or self._operator() in ("WITH", "WITHOUT"))
        if not name or follows or self._quoted(first):
            raise self._unsupported("this type is", first, "compute with it in the application")
        return exp.Var(this=name)

    def _precision(self, name: str) -> str:
        """`(9,2)` behind numeric; nothing where none is written."""
        if name not in ("numeric", "decimal", "dec") or not self._match(TokenType.L_PAREN):
            return ""
        numbers = ",".join(self._parse_csv(self._signed))
        self._expect(TokenType.R_PAREN, ")")
        return f"({numbers})"

    def _signed(self) -> str:
        sign = "-" if self._match(TokenType.DASH) else ""
        self._expect(TokenType.NUMBER, "a number")
        return sign + str(self._prev.text)

    def _call(self) -> exp.Expr:
        call = super()._call()
        if self._operator() == "WITHIN":
            raise self._unsupported("WITHIN GROUP is", self._curr)
        return call


def _upper(token: Token) -> str:
    """One token may be two words, with any blanks between them."""
    return " ".join(str(token.text).upper().split())


def _between(this: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """Of a column two conditions, each of which a plan may make a parameter of."""
    if not isinstance(this, exp.Column):
        return exp.Between(this=this, low=low, high=high)
    bounds = exp.GTE(this=this, expression=low), exp.LTE(this=this.copy(), expression=high)
    for bound in bounds:
        bound.meta.update(this.meta)
    return exp.And(this=bounds[0], expression=bounds[1])


def _null(this: exp.Expr) -> exp.Expr:
    return exp.Is(this=this, expression=exp.Null())
