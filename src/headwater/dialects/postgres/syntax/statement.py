"""PostgreSQL's grammar of queries: set operations, ORDER BY, LIMIT and FETCH around SELECT, and its aliases."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.dialects.postgres.syntax.expressions import NO_NAMES, RESERVED, UNARY, PostgresExpressions
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.select import SelectReader
from headwater.sql.syntax.suggestions import words

_NEVER_ALIAS = RESERVED | words(
    """CROSS FULL ILIKE INNER IS ISNULL JOIN LEFT LIKE NATURAL NOTNULL OUTER RIGHT OVER FILTER WITHIN DAY HOUR MINUTE
    MONTH PRECISION SECOND VARYING WITHOUT YEAR AT BETWEEN ESCAPE"""
)
_COMPOUNDS: dict[str, type[exp.SetOperation]] = {"UNION": exp.Union, "EXCEPT": exp.Except}


class PostgresStatement(PostgresExpressions, SelectReader):
    """The clauses of a query in PostgreSQL's order."""

    _nulls_are_smallest = False

    def _query(self) -> exp.Expr:
        first = self._curr
        tables = self._with() if self._operator() == "WITH" else None
        query = self._united(first)
        order = self._order()
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

    def _arranged(self) -> exp.Order | None:
        return self._order()

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
                limit = exp.Limit(expression=exp.Null() if every else self._expression())
            else:
                offset = exp.Offset(expression=self._expression())
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

    # Aliases

    def _column_alias(self) -> exp.Identifier | None:
        return self._alias()

    def _table_alias(self) -> exp.Identifier | None:
        return self._alias()

    def _alias(self) -> exp.Identifier | None:
        """Behind AS any word may be one."""
        written = self._match(TokenType.ALIAS)
        token = self._curr
        if written and token and not self._quoted(token) and token.token_type not in NO_NAMES:
            named = token.text[:1].isalpha() or token.text[:1] == "_"
        else:
            named = self._word(token) and (self._quoted(token) or token.text.upper() not in _NEVER_ALIAS)
        if not named:
            if written:
                self.raise_error("expected a name after AS")
            return None
        self._advance()
        return exp.to_identifier(self._spelling(token), quoted=True).update_positions(token)
