"""Reads tokens: names, words and operators, by the quotes and reserved words of a dialect.

sqlglot's parser keeps the place in the list of tokens; its own grammar is never reached. Every node carries its span of
the text in `meta`.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from headwater.model.errors import UnsupportedQuery
from headwater.sql.syntax.span import GrammarError, token_span

E = TypeVar("E", bound=exp.Expr)
_ROWS = "ask for the rows themselves"


class TokenReader(Parser):
    # What a dialect says
    _quotes: ClassVar[str]  # the characters that open a quoted name
    _reserved: ClassVar[frozenset[str]]  # words that are no names
    _no_names: ClassVar[tuple[TokenType, ...]]  # tokens that are no names

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self._curr or self._prev
        place = f'syntax error near "{at.text}"' if self._curr or token else "syntax error at the end"
        # sqlglot's own messages speak of its grammar, ours of the dialect's.
        raise GrammarError(f"{place}: {message}" if message.startswith("expected") else place, token_span(at))

    def _unsupported(self, what: str, first: Token, hint: str = _ROWS) -> UnsupportedQuery:
        at = first.start, max(self._prev.end, first.end) + 1
        return UnsupportedQuery(f"{what} not supported yet", sql=self.sql, at=at, hint=hint)

    # What comes next

    def _operator(self) -> str:
        """The operator or word that comes next, in capitals; empty for a quoted name or a string."""
        token = self._curr
        if not token or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return ""
        return self._sign(token)

    def _sign(self, token: Token) -> str:
        return str(token.text).upper()

    def _peek(self, ahead: int) -> Token:
        place = self._index + ahead
        return self._tokens[place] if place < len(self._tokens) else self._curr

    def _touches(self, token: Token) -> bool:
        """Whether a token continues the one before it, with no blank between them."""
        return (
            bool(token) and token.start == self._prev.end + 1 and (token.text[:1].isalnum() or token.text[:1] in "_.$")
        )

    def _match_not(self) -> bool:
        """sqlglot also reads `!` as NOT."""
        found = self._operator() == "NOT"
        if found:
            self._advance()
        return found

    def _expect(self, token_type: TokenType, what: str) -> None:
        if not self._match(token_type):
            self.raise_error(f"expected {what}")

    def _skip_to_close(self) -> None:
        depth = 1
        while self._curr and depth:
            depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
            self._advance()

    # Names

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
        """Whether a token may be a name: quoted, or a word that is not reserved."""
        if not token or token.token_type in self._no_names:
            return False
        if self._quoted(token):
            return True
        text = token.text
        begins = text[:1].isalpha() or text[:1] == "_" or text[:1] > "\x7f"
        # sqlglot makes one token of ORDER BY and its like: no name has a space in it.
        return begins and " " not in text and text.upper() not in self._reserved

    def _quoted(self, token: Token) -> bool:
        """sqlglot also calls `0x` an identifier."""
        return token.token_type == TokenType.IDENTIFIER and self.sql[token.start] in self._quotes

    # Nodes

    def _placed(self, node: E, first: Token) -> E:
        """The node with its span, from `first` to the token just read. A node already placed grows by its parens."""
        start, end = first.start, self._prev.end
        return node.update_positions(start=start, end=end, line=first.line, col=first.col)
