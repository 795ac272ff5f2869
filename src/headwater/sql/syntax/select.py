"""Reads SELECT: result columns, FROM, WHERE, GROUP BY, HAVING, WITH and VALUES, on the grammar of expressions.

FROM is a tree of `Joined`. What stands around a SELECT (set operations, ORDER BY, LIMIT) each dialect reads itself.
Names are not resolved here, nothing is typed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.sql.syntax.expression import ExpressionReader
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.suggestions import words

_JOIN_WORDS = words("NATURAL LEFT RIGHT FULL OUTER INNER CROSS")
_SIDES = {"LEFT": {"left"}, "RIGHT": {"right"}, "FULL": {"left", "right"}}
_KINDS = {
    frozenset[str](): "inner",
    frozenset({"left"}): "left",
    frozenset({"right"}): "right",
    frozenset({"left", "right"}): "full",
}


class SelectReader(ExpressionReader):
    _nulls_are_smallest: ClassVar[bool]  # a dialect says so: then they come first where the order rises

    def statement(self, tokens: list[Token], sql: str) -> exp.Expr:
        tree = self._parse(type(self)._query, tokens, sql)[0]  # type: ignore[arg-type]
        assert isinstance(tree, exp.Expr)
        return tree

    def _select(self) -> exp.Select:
        first = self._curr
        self._advance()
        distinct = exp.Distinct() if self._match(TokenType.DISTINCT) else None
        if distinct is None:
            self._match(TokenType.ALL)
        columns = self._parse_csv(self._result_column)
        source = self._from() if self._match(TokenType.FROM) else None
        where = exp.Where(this=self._expression()) if self._match(TokenType.WHERE) else None
        group = exp.Group(expressions=self._parse_csv(self._expression)) if self._match(TokenType.GROUP_BY) else None
        having = exp.Having(this=self._expression()) if self._match(TokenType.HAVING) else None
        if self._match(TokenType.WINDOW, advance=False):
            raise self._unsupported("WINDOW is", self._curr, "subscribe to the rows and group them in the application")
        select = exp.Select(
            expressions=columns, distinct=distinct, from_=source, where=where, group=group, having=having
        )
        return select.update_positions(first)

    def _values(self) -> exp.Values:
        first = self._curr
        self._advance()
        return self._placed(exp.Values(expressions=self._parse_csv(self._row)), first)

    def _row(self) -> exp.Tuple:
        self._expect(TokenType.L_PAREN, "( after VALUES")
        row = exp.Tuple(expressions=self._parse_csv(self._expression))
        self._expect(TokenType.R_PAREN, ")")
        return row

    # WITH

    def _with(self) -> exp.With:
        self._advance()
        self._match_text_seq("RECURSIVE")
        return exp.With(expressions=self._parse_csv(self._common_table))

    def _common_table(self) -> exp.CTE:
        first, name = self._curr, self._name("a name after WITH")
        columns = []
        if self._match(TokenType.L_PAREN):
            columns = self._parse_csv(lambda: self._name("a column"))
            self._expect(TokenType.R_PAREN, ")")
        self._expect(TokenType.ALIAS, "AS")
        self._match_text_seq("NOT")
        self._match_text_seq("MATERIALIZED")
        opened = self._curr
        self._expect(TokenType.L_PAREN, "( after AS")
        if not self._starts_query():
            self.raise_error("expected SELECT")
        query = self._subquery(opened).this
        return self._placed(exp.CTE(this=query, alias=exp.TableAlias(this=name, columns=columns)), first)

    # The result columns

    def _result_column(self) -> exp.Expr:
        first = self._curr
        if self._match(TokenType.STAR):
            return self._placed(exp.Star(), first)
        if self._word(first) and self._next.text == "." and self._peek(2).token_type == TokenType.STAR:
            self._advance(3)
            name = exp.to_identifier(self._spelling(first), quoted=True).update_positions(first)
            return self._placed(exp.Column(this=exp.Star(), table=name), first)
        this = self._expression()
        # SQLite names an unaliased column by all the text up to the next token, comments included.
        this.meta["text"] = self.sql[first.start : self._curr.start if self._curr else None].strip()
        alias = self._column_alias()
        return exp.Alias(this=this, alias=alias) if alias else this

    # FROM

    def _joins(self) -> exp.Expr:
        """Tables joined from left to right, as long as an operator follows."""
        first, left = self._curr, self._table()
        while (found := self._join_operator()) is not None:
            right = self._table()
            on, using = self._join_condition()
            kind, natural = found
            joined = Joined(this=left, expression=right, kind=kind, natural=natural, on=on, using=using)
            left = self._placed(joined, first)
        return left

    def _join_operator(self) -> tuple[str, bool] | None:
        """The kind of join that comes next, and whether it is NATURAL."""
        first = self._curr
        found = []
        while self._operator() in _JOIN_WORDS:
            found.append(self._operator())
            self._advance()
        if not found and self._operator() != "JOIN":
            return None
        if self._operator() != "JOIN":
            self.raise_error("expected JOIN")
        self._advance()
        return self._kind(set(found), first), "NATURAL" in found

    def _kind(self, found: set[str], first: Token) -> str:
        """LEFT RIGHT is FULL, as SQLite reads it."""
        sides = frozenset[str]().union(*(_SIDES.get(word, ()) for word in found))
        inner = bool(found & {"INNER", "CROSS"})
        if (inner and (sides or "OUTER" in found)) or ("OUTER" in found and not sides):
            self.raise_error("expected one kind of join", first)
        return _KINDS[sides]

    def _join_condition(self) -> tuple[exp.Expr | None, list[exp.Identifier] | None]:
        if self._match(TokenType.ON):
            return self._expression(), None
        if not self._match(TokenType.USING):
            return None, None
        self._expect(TokenType.L_PAREN, "( after USING")
        names = self._parse_csv(lambda: self._name("a column"))
        self._expect(TokenType.R_PAREN, ")")
        return None, names

    def _table(self) -> exp.Expr:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            return self._parenthesised(first)
        name, schema = self._name("a table"), None
        if self._match(TokenType.DOT):
            schema, name = name, self._name("a table after the dot")
        if self._match(TokenType.L_PAREN):
            self._skip_to_close()
            raise self._unsupported("a table function is", first, "name a table")
        table = exp.Table(this=name, db=schema, alias=self._table_alias())
        self._end_table()
        return self._placed(table, first)

    def _end_table(self) -> None:
        """Refuses what the dialect takes behind a table, and we do not."""

    def _parenthesised(self, first: Token) -> exp.Expr:
        """A derived table, or joins in parentheses."""
        if self._starts_query():
            derived = self._subquery(first)
            derived.set("alias", self._table_alias())
            return derived
        inner = self._from()
        self._expect(TokenType.R_PAREN, ")")
        alias = self._table_alias()
        if alias is not None:
            raise self._unsupported("a name for joins in parentheses is", first, "name the tables inside")
        return inner

    # ORDER BY

    def _order(self) -> exp.Order | None:
        return exp.Order(expressions=self._parse_csv(self._term)) if self._match(TokenType.ORDER_BY) else None

    def _term(self) -> exp.Ordered:
        this = self._expression()
        rising = bool(self._match(TokenType.ASC) or not self._match(TokenType.DESC))
        nulls_first = rising is self._nulls_are_smallest
        if self._match_text_seq("NULLS"):
            nulls_first = bool(self._match_text_seq("FIRST"))
            if not nulls_first and not self._match_text_seq("LAST"):
                self.raise_error("expected FIRST or LAST after NULLS")
        return exp.Ordered(this=this, desc=not rising, nulls_first=nulls_first)

    # What a dialect reads

    @abstractmethod
    def _from(self) -> exp.Expr: ...

    @abstractmethod
    def _column_alias(self) -> exp.Identifier | None:
        """`AS name`, or the name alone where no keyword could be meant."""

    @abstractmethod
    def _table_alias(self) -> exp.Identifier | None: ...
