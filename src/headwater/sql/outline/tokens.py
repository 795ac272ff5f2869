"""The tokens of a statement that nobody has bound: how deep each stands in parentheses, and names among them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


class NoOutline(Exception):
    """Why a statement has none, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Named:
    """A column as written: `qualifier` is empty where it has none."""

    qualifier: str
    name: str


@dataclass(frozen=True, slots=True)
class Word:
    """A token, how deep in parentheses it is, and its text as it is to be written."""

    token: Token
    depth: int
    text: str

    @property
    def word(self) -> str:
        """Empty for what is quoted; several words, as in ORDER BY, have one blank between them."""
        return "" if self.token.token_type in _QUOTED else " ".join(self.token.text.upper().split())

    @property
    def is_name(self) -> bool:
        return self.token.token_type == TokenType.IDENTIFIER or self.text.replace("$", "_").isidentifier()

    @property
    def folded(self) -> str:
        """What is not quoted is known by small letters."""
        return self.token.text if self.token.token_type == TokenType.IDENTIFIER else self.token.text.lower()


def numbered(sql: str, tokens: Sequence[Token]) -> list[Word]:
    """SQLite's `?` gets its number, so that the text can be repeated."""
    found, depth, number = list[Word](), 0, 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        depth -= token.token_type in _CLOSE
        text = sql[token.start : token.end + 1]
        if text == "?":
            if after is not None and after.token_type == TokenType.NUMBER and after.start == token.end + 1:
                raise NoOutline("its parameters have numbers")
            number += 1
            text = f"?{number}"
        found.append(Word(token, depth, text))
        depth += token.token_type in _OPEN
    return found


def written(sql: str, words: Sequence[Word]) -> str:
    """As it stands there, comments and all, but for parameters that got a number."""
    parts, last = list[str](), words[0].token.start if words else 0
    for word in words:
        parts += [sql[last : word.token.start], word.text]
        last = word.token.end + 1
    return "".join(parts)


def listed(words: Sequence[Word]) -> Iterator[list[Word]]:
    """What stands between the commas at depth 0."""
    part = list[Word]()
    for word in words:
        if word.depth == 0 and word.word == ",":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def spoken(words: Iterable[Word]) -> frozenset[str]:
    """In small letters, quoted ones too."""
    return frozenset(word.token.text.lower() for word in words)


def bared(words: Sequence[Word]) -> Sequence[Word]:
    """Without the parentheses around all of it; the words are at depth 0 then."""
    while words and words[0].word == "(" and all(word.depth > words[0].depth for word in words[1:-1]):
        words = words[1:-1]
    low = min((word.depth for word in words), default=0)
    return [Word(word.token, word.depth - low, word.text) for word in words] if low else words


def column(words: Sequence[Word]) -> Named | None:
    """`x` or `t.x`, and no more."""
    if len(words) == 1 and words[0].is_name:
        return Named("", words[0].folded)
    if len(words) == 3 and words[0].is_name and words[1].word == "." and words[2].is_name:
        return Named(words[0].folded, words[2].folded)
    return None
