"""The outline of a SELECT, read off its tokens: where its results, tables, joins and condition stand in the text.

It reads what nobody here could bind: expressions are skipped over, whatever they say. What is more than results, tables
and a condition has no outline. Names are not resolved; the origin has the last word on what was made of an outline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.sql.dialect import Dialect
from headwater.sql.names import words

Join = Literal["inner", "left", "right", "full"]

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_SIDES: dict[str, Join] = {"LEFT": "left", "RIGHT": "right", "FULL": "full", "INNER": "inner", "CROSS": "inner"}
_JOINS = ("NATURAL", "INNER", "CROSS", "JOIN")
_MORE = words("GROUP HAVING LIMIT OFFSET FETCH UNION INTERSECT EXCEPT WINDOW FOR INTO ORDER QUALIFY LATERAL SEMICOLON")


class NoOutline(Exception):
    """Why there is none, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Named:
    """A column as written: `qualifier` is empty where it has none."""

    qualifier: str
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """A table in FROM. `label` is what its columns are qualified by, `written` the same as it stands there. `equal` are
    comparisons of two columns that ON or USING asks for."""

    schema: str
    name: str
    label: str
    written: str
    join: Join = "inner"
    equal: tuple[tuple[Named, Named], ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """`head` is the text up to the end of the results, `body` FROM with its tables, `condition` that of WHERE.

    `inner` are all words of the queries inside it.
    """

    head: str
    body: str
    condition: str
    sources: tuple[Source, ...]
    inner: frozenset[str]


def outline(sql: str, dialect: Dialect) -> Outline:
    """`NoOutline` where the query is more than that."""
    try:
        tokens = dialect.tokens(sql)
    except TokenError:
        raise NoOutline("it does not read") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    return _Reader(_numbered(sql, tokens), sql).outline()


@dataclass(frozen=True, slots=True)
class _Word:
    """A token, how deep in parentheses it is, and its text as it is to be written."""

    token: Token
    depth: int
    text: str

    @property
    def word(self) -> str:
        """Empty for what is quoted."""
        return "" if self.token.token_type in _QUOTED else self.token.text.upper()


def _numbered(sql: str, tokens: Sequence[Token]) -> list[_Word]:
    """SQLite's `?` gets its number, so that the text can be repeated."""
    found, depth, number = list[_Word](), 0, 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        depth -= token.token_type in _CLOSE
        text = sql[token.start : token.end + 1]
        if text == "?":
            if after is not None and after.token_type == TokenType.NUMBER and after.start == token.end + 1:
                raise NoOutline("its parameters have numbers")
            number += 1
            text = f"?{number}"
        found.append(_Word(token, depth, text))
        depth += token.token_type in _OPEN
    return found


class _Reader:
    """Walks over the words at depth 0."""

    def __init__(self, all_words: list[_Word], sql: str) -> None:
        self._all, self._sql, self._at = all_words, sql, 0

    def outline(self) -> Outline:
        self._expect("SELECT")
        self._refuse_more()
        start = self._at
        while not (self._word == "FROM" and self._all[self._at - 1].word != "DISTINCT"):
            self._advance("its results have no FROM after them")
        begins = self._at
        self._at += 1
        sources = tuple(self._sources())
        ends = self._at
        condition = self._condition()
        head, body = self._text(0, begins), self._text(begins, ends)
        if start == begins:
            raise NoOutline("it has no results")
        return Outline(head, body, condition, sources, frozenset(self._inner()))

    # Words

    @property
    def _word(self) -> str:
        return self._all[self._at].word if self._at < len(self._all) else ""

    def _peek(self, ahead: int = 1) -> str:
        at = self._at + ahead
        return self._all[at].word if at < len(self._all) else ""

    def _advance(self, missing: str) -> None:
        """To the next word of this depth."""
        self._at += 1
        while self._at < len(self._all) and self._all[self._at].depth:
            self._at += 1
        if self._at >= len(self._all):
            raise NoOutline(missing)

    def _expect(self, word: str) -> None:
        if self._word != word:
            raise NoOutline(f"it does not begin with {word}")
        self._at += 1

    def _refuse_more(self) -> None:
        if self._word in ("DISTINCT", "ALL"):
            raise NoOutline(f"it has {self._word}")
        for word in self._all:
            clause = word.word.split(" ")[0]
            if word.depth == 0 and clause in _MORE:
                raise NoOutline(f"it has {word.word}")

    def _text(self, start: int, end: int) -> str:
        """As written, comments and all, but for parameters that got a number."""
        parts, last = [], self._all[start].token.start
        for word in self._all[start:end]:
            parts += [self._sql[last : word.token.start], word.text]
            last = word.token.end + 1
        return "".join(parts)

    def _inner(self) -> Iterator[str]:
        """Every word inside the parentheses of a query."""
        depth = 0
        for before, word in zip(self._all, self._all[1:], strict=False):
            if before.token.token_type == TokenType.L_PAREN and word.word in _QUERIES and not depth:
                depth = word.depth
            if word.depth < depth:
                depth = 0
            if depth:
                yield word.token.text.lower()

    # FROM and WHERE

    def _sources(self) -> Iterator[Source]:
        yield self._source("inner")
        while self._at < len(self._all) and self._word != "WHERE":
            yield self._joined()

    def _joined(self) -> Source:
        join: Join = "inner"
        if self._word == ",":
            self._at += 1
            return self._source(join)
        if self._word == "NATURAL":
            self._at += 1
        if self._word in _SIDES:
            join = _SIDES[self._word]
            self._at += 2 if self._peek() == "OUTER" else 1
        if self._word != "JOIN":
            raise NoOutline(f"we do not read its FROM at {self._here()}")
        self._at += 1
        return self._source(join)

    def _source(self, join: Join) -> Source:
        schema, name = "", self._name()
        if self._word == ".":
            self._at += 1
            schema, name = name, self._name()
        label = name
        if self._word == "AS" or self._is_alias():
            self._at += self._word == "AS"
            label = self._name()
        written = self._all[self._at - 1].text
        return Source(schema, name, label, written, join, tuple(self._equal(label)))

    def _here(self) -> str:
        return f'"{self._all[self._at].text}"' if self._at < len(self._all) else "its end"

    def _name(self) -> str:
        if self._at >= len(self._all) or not _is_name(self._all[self._at]):
            raise NoOutline(f"we do not read its FROM at {self._here()}")
        self._at += 1
        return _folded(self._all[self._at - 1])

    def _is_alias(self) -> bool:
        return (
            self._at < len(self._all)
            and _is_name(self._all[self._at])
            and self._word not in (*_SIDES, *_JOINS, "ON", "USING", "WHERE")
        )

    def _equal(self, label: str) -> Iterator[tuple[Named, Named]]:
        if self._word == "ON":
            self._at += 1
            start = self._at
            while self._at < len(self._all) and not self._ends_condition():
                self._at += 1
            yield from _equalities(self._all[start : self._at])
        elif self._word == "USING":
            start = self._at + 2
            self._at = self._end_of_list(start)
            for word in self._all[start : self._at - 1]:
                if word.word != ",":
                    yield Named(label, _folded(word)), Named("", _folded(word))

    def _end_of_list(self, at: int) -> int:
        while at < len(self._all) and self._all[at].depth:
            at += 1
        return at + 1

    def _ends_condition(self) -> bool:
        if self._all[self._at].depth:
            return False
        word = self._word
        side = word in ("LEFT", "RIGHT", "FULL") and self._peek() in ("OUTER", "JOIN")
        return side or word in (*_JOINS, ",", "WHERE")

    def _condition(self) -> str:
        if self._at >= len(self._all):
            return ""
        return self._text(self._at + 1, len(self._all))


def _is_name(word: _Word) -> bool:
    return word.token.token_type == TokenType.IDENTIFIER or word.text.replace("$", "_").isidentifier()


def _folded(word: _Word) -> str:
    """What is not quoted is known by small letters."""
    return word.token.text if word.token.token_type == TokenType.IDENTIFIER else word.token.text.lower()


def _equalities(condition: Sequence[_Word]) -> Iterator[tuple[Named, Named]]:
    """Where the condition is a chain of ANDs: those of its parts that compare two columns."""
    while condition and condition[0].word == "(" and all(word.depth for word in condition[1:-1]):
        condition = [_Word(word.token, word.depth - 1, word.text) for word in condition[1:-1]]
    if any(word.depth == 0 and word.word in ("OR", "BETWEEN", "CASE", "NOT") for word in condition):
        return
    part = list[_Word]()
    for word in [*condition, None]:
        if word is not None and not (word.depth == 0 and word.word == "AND"):
            part.append(word)
            continue
        sides = _sides(part)
        part = []
        if sides is not None:
            yield sides


def _sides(part: Sequence[_Word]) -> tuple[Named, Named] | None:
    """`a.x = b.y`, and no more."""
    signs = [place for place, word in enumerate(part) if word.word in ("=", "==")]
    if len(signs) != 1:
        return None
    left, right = _column(part[: signs[0]]), _column(part[signs[0] + 1 :])
    return (left, right) if left is not None and right is not None else None


def _column(part: Sequence[_Word]) -> Named | None:
    if len(part) == 1 and _is_name(part[0]):
        return Named("", _folded(part[0]))
    if len(part) == 3 and _is_name(part[0]) and part[1].word == "." and _is_name(part[2]):
        return Named(_folded(part[0]), _folded(part[2]))
    return None
