"""The outline of a SELECT, read off its tokens: where results, tables, joins, condition and order stand in the text.

It reads what nobody here could bind: expressions are skipped over, whatever they say. What is more than results,
tables, a condition and an order has no outline. Names are not resolved; the source has the last word on what was made
of an outline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from headwater.sql.dialect import Dialect
from headwater.sql.outline.order_terms import Sort, sorts
from headwater.sql.outline.tokens import Named, NoOutline, Word, bared, column, listed, numbered, spoken, written
from headwater.sql.syntax.suggestions import words

Join = Literal["inner", "left", "right", "full"]

_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_SIDES: dict[str, Join] = {"LEFT": "left", "RIGHT": "right", "FULL": "full", "INNER": "inner", "CROSS": "inner"}
_JOINS = ("NATURAL", "INNER", "CROSS", "JOIN")
_AFTER_TABLES = ("WHERE", "ORDER BY")
_MORE = words("GROUP HAVING LIMIT OFFSET FETCH UNION INTERSECT EXCEPT WINDOW FOR INTO QUALIFY LATERAL SEMICOLON")


@dataclass(frozen=True, slots=True)
class FromItem:
    """A table in FROM. `label` is what its columns are qualified by, `written` the same as it stands there. `equal` are
    comparisons of two columns that ON or USING asks for."""

    schema: str
    name: str
    label: str
    written: str
    join: Join = "inner"
    equal: tuple[tuple[Named, Named], ...] = ()


@dataclass(frozen=True, slots=True)
class Spoken:
    """What is said of a result, or of several where it is a star: the words, and the column where it is no more."""

    words: frozenset[str]
    column: Named | None = None
    star: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """`head` is the text up to the end of the results, `body` FROM with its tables, `condition` that of WHERE.

    `inner` are all words of the queries inside it.
    """

    head: str
    body: str
    condition: str
    order: tuple[Sort, ...]
    from_items: tuple[FromItem, ...]
    results: tuple[Spoken, ...]
    inner: frozenset[str]


def outline(sql: str, dialect: Dialect) -> Outline:
    """`NoOutline` where the query is more than that."""
    try:
        tokens = dialect.syntax.tokens(sql)
    except TokenError:
        raise NoOutline("it does not read") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    return _OutlineReader(numbered(sql, tokens), sql).outline()


class _OutlineReader:
    """Walks over the words at depth 0."""

    def __init__(self, all_words: list[Word], sql: str) -> None:
        self._all, self._sql, self._at = all_words, sql, 0

    def outline(self) -> Outline:
        self._expect("SELECT")
        self._refuse_more()
        start = self._at
        while not (self._word == "FROM" and self._all[self._at - 1].word != "DISTINCT"):
            self._advance("its results have no FROM after them")
        begins = self._at
        self._at += 1
        from_items = tuple(self._from_items())
        ends = self._at
        condition, order = self._condition(), self._order()
        head, body = self._text(0, begins), self._text(begins, ends)
        if start == begins:
            raise NoOutline("it has no results")
        results = tuple(map(_spoken, listed(self._all[start:begins])))
        return Outline(head, body, condition, order, from_items, results, frozenset(self._inner()))

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
            if word.depth == 0 and (clause in _MORE or word.word == "ORDER"):
                raise NoOutline(f"it has {word.word}")

    def _text(self, start: int, end: int) -> str:
        return written(self._sql, self._all[start:end])

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

    def _from_items(self) -> Iterator[FromItem]:
        yield self._from_item("inner")
        while self._at < len(self._all) and self._word not in _AFTER_TABLES:
            yield self._joined()

    def _joined(self) -> FromItem:
        join: Join = "inner"
        if self._word == ",":
            self._at += 1
            return self._from_item(join)
        if self._word == "NATURAL":
            self._at += 1
        if self._word in _SIDES:
            join = _SIDES[self._word]
            self._at += 2 if self._peek() == "OUTER" else 1
        if self._word != "JOIN":
            raise NoOutline(f"we do not read its FROM at {self._here()}")
        self._at += 1
        return self._from_item(join)

    def _from_item(self, join: Join) -> FromItem:
        schema, name = "", self._name()
        if self._word == ".":
            self._at += 1
            schema, name = name, self._name()
        label = name
        if self._word == "AS" or self._is_alias():
            self._at += self._word == "AS"
            label = self._name()
        written = self._all[self._at - 1].text
        return FromItem(schema, name, label, written, join, tuple(self._equal(label)))

    def _here(self) -> str:
        return f'"{self._all[self._at].text}"' if self._at < len(self._all) else "its end"

    def _name(self) -> str:
        if self._at >= len(self._all) or not self._all[self._at].is_name:
            raise NoOutline(f"we do not read its FROM at {self._here()}")
        self._at += 1
        return self._all[self._at - 1].folded

    def _is_alias(self) -> bool:
        return (
            self._at < len(self._all)
            and self._all[self._at].is_name
            and self._word not in (*_SIDES, *_JOINS, "ON", "USING", *_AFTER_TABLES)
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
                    yield Named(label, word.folded), Named("", word.folded)

    def _end_of_list(self, at: int) -> int:
        while at < len(self._all) and self._all[at].depth:
            at += 1
        return at + 1

    def _ends_condition(self) -> bool:
        if self._all[self._at].depth:
            return False
        word = self._word
        side = word in ("LEFT", "RIGHT", "FULL") and self._peek() in ("OUTER", "JOIN")
        return side or word in (*_JOINS, ",", *_AFTER_TABLES)

    def _condition(self) -> str:
        if self._word != "WHERE":
            return ""
        start = self._at + 1
        while self._at < len(self._all) and not (self._word == "ORDER BY" and not self._all[self._at].depth):
            self._at += 1
        return self._text(start, self._at)

    def _order(self) -> tuple[Sort, ...]:
        """The rest, which is none or an ORDER BY."""
        return tuple(sorts(self._sql, self._all[self._at + 1 :])) if self._at < len(self._all) else ()


def _spoken(result: Sequence[Word]) -> Spoken:
    known = result[:-2] if len(result) > 2 and result[-2].word == "AS" else result
    return Spoken(spoken(result), column(bared(known)), bool(result) and result[-1].word == "*")


def _equalities(condition: Sequence[Word]) -> Iterator[tuple[Named, Named]]:
    """Where the condition is a chain of ANDs: those of its parts that compare two columns."""
    condition = bared(condition)
    if any(word.depth == 0 and word.word in ("OR", "BETWEEN", "CASE", "NOT") for word in condition):
        return
    part = list[Word]()
    for word in [*condition, None]:
        if word is not None and not (word.depth == 0 and word.word == "AND"):
            part.append(word)
            continue
        sides = _sides(part)
        part = []
        if sides is not None:
            yield sides


def _sides(part: Sequence[Word]) -> tuple[Named, Named] | None:
    """`a.x = b.y`, and no more."""
    signs = [place for place, word in enumerate(part) if word.word in ("=", "==")]
    if len(signs) != 1:
        return None
    left, right = column(part[: signs[0]]), column(part[signs[0] + 1 :])
    return (left, right) if left is not None and right is not None else None
