"""The terms of an ORDER BY, read off its tokens: what each says of itself, whatever it means. No name is resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from headwater.sql.outline.tokens import Named, NoOutline, Word, bared, column, listed, spoken, written

_SEEN_THROUGH = frozenset({"likely", "unlikely", "likelihood"})  # SQLite looks for a result's name beneath them
_VALUES = (TokenType.STRING, TokenType.PLACEHOLDER, TokenType.PARAMETER)


@dataclass(frozen=True, slots=True)
class Sort:
    """`whole` is the term as written, `text` what it orders by. Where that is a number, or a column by its name, these
    are told beside any COLLATE at the end. `nulls_first` is None where the term does not say."""

    whole: str
    text: str
    number: int | None
    column: Named | None
    collation: str
    descending: bool
    nulls_first: bool | None
    words: frozenset[str]

    @property
    def name(self) -> str:
        """What may be the name of a result; empty where it cannot be."""
        return self.column.name if self.column is not None and not self.column.qualifier else ""


def sorts(sql: str, words: Sequence[Word]) -> Iterator[Sort]:
    """Of the words behind ORDER BY."""
    for term in listed(words):
        yield _sort(sql, term)


def _sort(sql: str, term: Sequence[Word]) -> Sort:
    whole = written(sql, term)
    term, nulls_first = _nulls(term)
    descending = bool(term) and term[-1].word == "DESC"
    if term and term[-1].word in ("ASC", "DESC"):
        term = term[:-1]
    if not term or any(word.depth == 0 and word.word == "USING" for word in term):
        raise NoOutline(f'we do not read its order at "{whole}"')
    seen = spoken(term)
    inner, collation = _collated(term)
    number = _number(inner)
    if number is None and (seen & _SEEN_THROUGH or not any(_says_something(word) for word in inner)):
        raise NoOutline(f'we do not read its order at "{whole}"')
    return Sort(whole, written(sql, term), number, column(inner), collation, descending, nulls_first, seen)


def _nulls(term: Sequence[Word]) -> tuple[Sequence[Word], bool | None]:
    if len(term) > 1 and term[-2].word == "NULLS" and term[-1].word in ("FIRST", "LAST"):
        return term[:-2], term[-1].word == "FIRST"
    return term, None


def _collated(term: Sequence[Word]) -> tuple[Sequence[Word], str]:
    """What COLLATE stands behind, and the collation."""
    inner = bared(term)
    if len(inner) > 2 and inner[-2].word == "COLLATE" and inner[-2].depth == 0 and inner[-1].is_name:
        return bared(inner[:-2]), inner[-1].token.text
    return inner, ""


def _number(term: Sequence[Word]) -> int | None:
    return int(term[0].text) if len(term) == 1 and term[0].text.isdecimal() else None


def _says_something(word: Word) -> bool:
    """More than a number, which may be that of a result in disguise."""
    return word.is_name or word.token.token_type in _VALUES
