"""SQLite's grammar of queries: set operations, ORDER BY and LIMIT around SELECT, and where a name may stand alone."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headwater.dialects.sqlite.syntax.expressions import RESERVED, SqliteExpressions
from headwater.sql.syntax.select import SelectReader
from headwater.sql.syntax.suggestions import words

_NEVER_ALIAS = RESERVED | words("CROSS FULL GLOB INDEXED INNER LEFT LIKE MATCH NATURAL OUTER REGEXP RIGHT WINDOW")
_NEVER_TABLE_ALIAS = _NEVER_ALIAS - words("GLOB LIKE MATCH REGEXP")
_COMPOUNDS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "INTERSECT": exp.Intersect,
    "EXCEPT": exp.Except,
}


class SqliteStatement(SqliteExpressions, SelectReader):
    """The clauses of a query in SQLite's order."""

    _nulls_are_smallest = True

    def _query(self) -> exp.Expr:
        """WITH, cores between set operators, then ORDER BY and LIMIT of the whole."""
        first = self._curr
        tables = self._with() if self._operator() == "WITH" else None
        query = self._core()
        while self._operator() in _COMPOUNDS:
            node = _COMPOUNDS[self._operator()]
            self._advance()
            every = bool(self._match(TokenType.ALL)) if node is exp.Union else False
            query = self._placed(node(this=query, expression=self._core(), distinct=not every), first)
        if isinstance(query.args.get("expression", query), exp.Values):
            return self._bare(query, tables)
        order = self._order()
        limit, offset = self._frame() if self._match(TokenType.LIMIT) else (None, None)
        for name, clause in (("with_", tables), ("order", order), ("limit", limit), ("offset", offset)):
            query.set(name, clause)
        return query

    def _bare(self, query: exp.Expr, tables: exp.With | None) -> exp.Expr:
        """SQLite takes no ORDER BY or LIMIT after VALUES."""
        if self._curr and self._curr.token_type in (TokenType.ORDER_BY, TokenType.LIMIT):
            self.raise_error("")
        query.set("with_", tables)
        return query

    def _core(self) -> exp.Expr:
        if self._operator() == "VALUES":
            return self._values()
        if self._operator() != "SELECT":
            self.raise_error("expected SELECT")
        return self._select()

    def _frame(self) -> tuple[exp.Limit, exp.Offset | None]:
        """`LIMIT a OFFSET b`, or `LIMIT b, a`."""
        count, skipped = self._expression(), None
        if self._match(TokenType.OFFSET):
            skipped = self._expression()
        elif self._match(TokenType.COMMA):
            skipped, count = count, self._expression()
        return exp.Limit(expression=count), exp.Offset(expression=skipped) if skipped else None

    # FROM

    def _from(self) -> exp.Expr:
        return self._joins()

    def _join_operator(self) -> tuple[str, bool] | None:
        """A comma binds as JOIN does."""
        if self._operator() == "," and self._next:
            self._advance()
            return "inner", False
        return super()._join_operator()

    def _end_table(self) -> None:
        word = self._operator()
        if word.startswith("INDEXED") or (word == "NOT" and self._next.text.upper() == "INDEXED"):
            raise self._unsupported("INDEXED is", self._curr, "leave it out")

    # Aliases

    def _column_alias(self) -> exp.Identifier | None:
        return self._alias(_NEVER_ALIAS)

    def _table_alias(self) -> exp.Identifier | None:
        return self._alias(_NEVER_TABLE_ALIAS)

    def _alias(self, never: frozenset[str]) -> exp.Identifier | None:
        """A string may be one."""
        written = self._match(TokenType.ALIAS)
        token = self._curr
        named = bool(token) and (token.token_type == TokenType.STRING or self._word(token))
        if not written and (not named or self._operator() in never):
            return None
        if not named:
            self.raise_error("expected a name after AS")
        self._advance()
        return exp.to_identifier(token.text, quoted=True).update_positions(token)
