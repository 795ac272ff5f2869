"""Where a piece of a query stands in its text: the first character, and the one after the last."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

Span = tuple[int, int]


class GrammarError(ParseError):
    """A syntax error with its place."""

    def __init__(self, message: str, at: Span) -> None:
        super().__init__(message)
        self.at = at


def token_span(token: Token) -> Span:
    return token.start, token.end + 1


def span(node: exp.Expr) -> Span | None:
    """The characters of the text a node stands for."""
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is not None and end is not None:
        return start, end + 1
    inner = [found for child in node.iter_expressions() if (found := span(child))]
    return (min(at for at, _ in inner), max(to for _, to in inner)) if inner else None
