"""PostgreSQL's grammar of queries where it is not SQLite's: precedence, names, casts, NULL order, set operations.

Only what stands in `docs/sql.md` is read; whatever else PostgreSQL takes is refused, and so asked of it. It is never
read as something else: the text was prepared at the origin before. Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.dialects.sqlite.statement import Statement
from headwater.model.errors import UnsupportedQuery
from headwater.sql.ir.conjunction import operands
from headwater.sql.syntax.nodes import Joined, Plus
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
_RESERVED = words(
    """ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE
    CURRENT_CATALOG CURRENT_DATE CURRENT_ROLE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DEFAULT DEFERRABLE DESC
    DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FROM GRANT GROUP HAVING IN INITIALLY INTERSECT INTO LATERAL
    LEADING LIMIT LOCALTIME LOCALTIMESTAMP NOT NULL OFFSET ON ONLY OR ORDER PLACING PRIMARY REFERENCES RETURNING SELECT
    SESSION_USER SOME SYMMETRIC TABLE THEN TO TRAILING TRUE UNION UNIQUE USER USING VARIADIC WHEN WHERE WINDOW WITH
    ROW INTERVAL TABLESAMPLE OVERLAPS SIMILAR"""
)
_NEVER_ALIAS = _RESERVED | words(
    """CROSS FULL ILIKE INNER IS ISNULL JOIN LEFT LIKE NATURAL NOTNULL OUTER RIGHT OVER FILTER WITHIN DAY HOUR MINUTE
    MONTH PRECISION SECOND VARYING WITHOUT YEAR AT BETWEEN ESCAPE"""
)
_TYPED = words("DATE TIME TIMESTAMP TIMESTAMPTZ INTERVAL UUID")
_EVERY = words("ANY SOME ALL")
_FIELDS = words("YEAR MONTH DAY HOUR MINUTE SECOND")
_COMPOUNDS: dict[str, type[exp.SetOperation]] = {"UNION": exp.Union, "EXCEPT": exp.Except}


class PostgresStatement(Statement):
    """Reads with PostgreSQL's precedence; words that are no names are refused as such."""

    # Operators

    _not, _unary = NOT, UNARY
    _signs = ((TokenType.DASH, exp.Neg), (TokenType.PLUS, Plus))

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
        first, place = self._curr, self._tier(OR)
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
        tier, node = BINARY.get(self._operator(), (0, exp.Expr))
        if tier < least or not tier:
            return None
        self._advance()
        if self._operator() in _EVERY and self._next and self._next.token_type == TokenType.L_PAREN:
            return self._each(this, node)
        return node(this=this, expression=self._tier(tier + 1))

    def _each(self, this: exp.Expr, node: type[exp.Expr]) -> exp.Expr:
        """`= ANY (…)` is IN, and `<> ALL (…)` is NOT IN: of a query, or of the elements of an array."""
        first, every = self._curr, self._operator() == "ALL"
        if node is not (exp.NEQ if every else exp.EQ):
            raise self._unsupported(f"{self._operator()} is", first)
        self._advance(2)
        if self._starts_query():
            return self._negated(every, self._placed(exp.In(this=this, query=self._subquery(first)), first))
        array = self._tier(OR)
        self._expect(TokenType.R_PAREN, ")")
        return self._negated(every, self._placed(exp.In(this=this, field=array), first))

    def _operator(self) -> str:
        token = self._curr
        if not token or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return ""
        return _upper(token)

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
        items = self._parse_csv(lambda: self._tier(OR))
        self._expect(TokenType.R_BRACKET, "]")
        return exp.Array(expressions=items)

    def _extract(self) -> exp.Expr:
        """`extract(year FROM x)`: a function of a text and a moment."""
        first = self._curr
        self._advance(2)
        field = exp.Literal.string(self._curr.text.lower())
        self._advance()
        self._expect(TokenType.FROM, "FROM")
        call = exp.Anonymous(this="extract", expressions=[field, self._tier(OR)], distinct=False)
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
        this = self._tier(OR)
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

    def _arranged(self) -> exp.Order | None:
        return exp.Order(expressions=self._parse_csv(self._term)) if self._match(TokenType.ORDER_BY) else None

    # Names

    def _spelling(self, token: Token) -> str:
        """Folded to small letters, those of ASCII, unless quoted."""
        return token.text if self._quoted(token) else token.text.translate(_FOLDED)

    def _word(self, token: Token) -> bool:
        if not token or token.token_type in _NO_NAMES:
            return False
        text = token.text
        if self._quoted(token):
            return True
        begins = text[:1].isalpha() or text[:1] == "_" or text[:1] > "\x7f"
        return begins and " " not in text and text.upper() not in _RESERVED

    def _quoted(self, token: Token) -> bool:
        return token.token_type == TokenType.IDENTIFIER and self.sql[token.start] == '"'

    def _alias(self, never: frozenset[str]) -> exp.Identifier | None:
        written = self._match(TokenType.ALIAS)
        token = self._curr
        if written and token and not self._quoted(token) and token.token_type not in _NO_NAMES:
            named = token.text[:1].isalpha() or token.text[:1] == "_"
        else:
            named = self._word(token) and (self._quoted(token) or token.text.upper() not in _NEVER_ALIAS)
        if not named:
            if written:
                self.raise_error("expected a name after AS")
            return None
        self._advance()
        return exp.to_identifier(self._spelling(token), quoted=True).update_positions(token)

    # Queries

    def _query(self) -> exp.Expr:
        first = self._curr
        tables = self._with() if self._operator() == "WITH" else None
        query = self._united(first)
        order = exp.Order(expressions=self._parse_csv(self._term)) if self._match(TokenType.ORDER_BY) else None
        limit, offset = self._frames()
        if self._curr and self._operator() == "FOR":
            raise self._unsupported("FOR is", self._curr)
        if isinstance(query, exp.Values) and (order or limit):
            raise self._unsupported("VALUES with an order or a limit is", first)
        for name, clause in (("with_", tables), ("order", order), ("limit", limit), ("offset", offset)):
            query.set(name, clause)
        return query

    def _with(self) -> exp.With:
        """A common table sees those before it: where it seems to name itself or a later one, it means a table."""
        tables = super()._with()
        names = [common.alias for common in tables.expressions]
        for place, common in enumerate(tables.expressions):
            if {table.name for table in common.this.find_all(exp.Table)} & set(names[place:]):
                raise self._unsupported("a common table that names itself or a later one is", self._prev)
        return tables

    def _united(self, first: Token) -> exp.Expr:
        query = self._intersected(first)
        while self._operator() in _COMPOUNDS:
            node = _COMPOUNDS[self._operator()]
            every = self._every()
            query = self._placed(node(this=query, expression=self._intersected(first), distinct=not every), first)
        return query

    def _intersected(self, first: Token) -> exp.Expr:
        """INTERSECT binds more tightly than the others."""
        query = self._core()
        while self._operator() == "INTERSECT":
            every = self._every()
            query = self._placed(exp.Intersect(this=query, expression=self._core(), distinct=not every), first)
        return query

    def _every(self) -> bool:
        self._advance()
        every = bool(self._match(TokenType.ALL))
        if not every:
            self._match(TokenType.DISTINCT)
        return every

    def _core(self) -> exp.Expr:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            inner = self._query()
            self._expect(TokenType.R_PAREN, ")")
            if any(inner.args.get(clause) for clause in ("with_", "order", "limit", "offset")):
                raise self._unsupported("a side of a set operation with an order of its own is", first)
            return inner
        if self._operator() == "VALUES":
            return self._values()
        if self._operator() != "SELECT":
            raise self._unsupported(f"{self._operator() or 'this form of a query'} is", first)
        return self._select()

    def _select(self) -> exp.Select:
        if self._next and self._next.token_type == TokenType.DISTINCT and self._peek(2).text.upper() == "ON":
            raise self._unsupported("DISTINCT ON is", self._next)
        return super()._select()

    def _parenthesised(self, first: Token) -> exp.Expr:
        """A derived table may name its columns: `AS v (a, b)`."""
        inner = super()._parenthesised(first)
        if isinstance(inner, exp.Subquery) and inner.alias and self._match(TokenType.L_PAREN):
            inner.set("columns", self._parse_csv(lambda: self._name("a column")))
            self._expect(TokenType.R_PAREN, ")")
        return inner

    def _from(self) -> exp.Expr:
        """JOIN binds more tightly than a comma."""
        first, left = self._curr, self._joins()
        while self._match(TokenType.COMMA):
            left = self._placed(Joined(this=left, expression=self._joins(), kind="inner"), first)
        return left

    def _joins(self) -> exp.Expr:
        first, left = self._curr, self._source()
        while not self._match(TokenType.COMMA, advance=False) and (found := self._join_operator()) is not None:
            right = self._source()
            on, using = self._join_condition()
            kind, natural = found
            joined = Joined(this=left, expression=right, kind=kind, natural=natural, on=on, using=using)
            left = self._placed(joined, first)
        return left

    def _frames(self) -> tuple[exp.Limit | None, exp.Offset | None]:
        """LIMIT or FETCH, and OFFSET, in either order."""
        limit = offset = None
        while self._curr and self._operator() in ("LIMIT", "OFFSET", "FETCH"):
            if self._operator() == "FETCH":
                limit = exp.Limit(expression=self._fetched())
                continue
            is_limit = self._curr.token_type == TokenType.LIMIT
            self._advance()
            if is_limit:
                every = self._match(TokenType.ALL)
                limit = exp.Limit(expression=exp.Null() if every else self._tier(OR))
            else:
                offset = exp.Offset(expression=self._tier(OR))
                if self._operator() in ("ROW", "ROWS"):
                    self._advance()
        if offset is not None and limit is None:
            limit = exp.Limit(expression=exp.Null())
        return limit, offset

    def _fetched(self) -> exp.Expr:
        """`FETCH FIRST 3 ROWS ONLY`: the number, 1 where none is written."""
        self._advance(2)
        count = exp.Literal.number(1) if self._operator() in ("ROW", "ROWS") else self._tier(UNARY)
        self._advance()
        if self._operator() != "ONLY":
            raise self._unsupported("WITH TIES is", self._curr)
        self._advance()
        return count

    def _term(self) -> exp.Ordered:
        """NULLs come last where the order rises, as the largest values, unless said otherwise."""
        this = self._tier(OR)
        rising = self._match(TokenType.ASC) or not self._match(TokenType.DESC)
        nulls_first = not rising
        if self._match_text_seq("NULLS"):
            nulls_first = bool(self._match_text_seq("FIRST"))
            if not nulls_first and not self._match_text_seq("LAST"):
                self.raise_error("expected FIRST or LAST after NULLS")
        return exp.Ordered(this=this, desc=not rising, nulls_first=nulls_first)


_FOLDED = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_NO_NAMES = (
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


def refuse_alike(tree: exp.Expr, sql: str, columns: tuple[str, ...] = ()) -> None:
    """Names that differ only in the case of their letters are different names: the binder does not tell them apart."""
    seen = {column.lower(): column for column in columns}
    for name in tree.find_all(exp.Identifier):
        if isinstance(name.parent, exp.Collate):
            continue
        known = seen.setdefault(name.name.lower(), name.name)
        if known != name.name:
            raise UnsupportedQuery(
                f"the names {known} and {name.name} differ only in the case of their letters", sql=sql
            )


def spell_constant_conditions(tree: exp.Expr, sql: str) -> None:
    """WHERE TRUE becomes WHERE 1 = 1: a condition that meets no column is computed for each row like others. What else
    meets none is refused: nobody would type it."""
    for node in tree.find_all(exp.Where, exp.Having, Joined, exp.Anonymous):
        condition = node.this if isinstance(node, exp.Where | exp.Having) else node.args.get(_CONDITIONS[type(node)])
        for part in list(operands(condition, exp.And)) if condition is not None else ():
            if isinstance(part, exp.Boolean):
                part.replace(_spelled(part))
            elif not _is_clear(part):
                raise UnsupportedQuery("a condition without a column is not supported yet", sql=sql)


def _is_clear(part: exp.Expr) -> bool:
    if next(part.find_all(exp.Column, exp.Subquery, exp.Star), None) is not None:
        return True
    sides = (part.this, part.args.get("expression"))
    return isinstance(part, _EQUATIONS) and all(isinstance(side, exp.Literal) and side.is_int for side in sides)


def _spelled(truth: exp.Boolean) -> exp.EQ:
    spelled = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1 if truth.this else 0))
    spelled.meta.update(truth.meta)
    return spelled


_EQUATIONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONDITIONS: dict[type[exp.Expr], str] = {Joined: "on", exp.Anonymous: "filter"}
