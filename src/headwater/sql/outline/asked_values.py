"""The values that a query asks for: columns that its outermost WHERE wants equal to constants, read off its tokens.

It reads what nobody here could bind, whatever else the query says: WITH, windows, groups and subqueries are skipped
over. Names are not resolved, and nothing is compared. `NoOutline` where it is not clear which condition decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from headwater.model.value import Value
from headwater.sql.dialect import Dialect
from headwater.sql.outline.tokens import Named, NoOutline, Word, bared, column, listed, numbered
from headwater.sql.syntax.suggestions import words

_SETS = words("UNION INTERSECT EXCEPT MINUS")
_AFTER_WHERE = words("GROUP HAVING WINDOW ORDER LIMIT OFFSET FETCH FOR INTO QUALIFY")
_NO_ALIAS = words("LEFT RIGHT FULL INNER CROSS NATURAL JOIN ON USING WHERE AS OUTER TABLESAMPLE INDEXED NOT")


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, or a parameter by its place or its name."""

    value: Value = None
    parameter: int | str | None = None


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table in the outermost FROM; `label` is what its columns are qualified by."""

    schema: str
    name: str
    label: str


@dataclass(frozen=True, slots=True)
class AskedValues:
    """`equal` are conjuncts: a row passes WHERE only where each of these columns equals one of its constants. `merges`:
    FROM has columns that belong to two tables at once. `said` counts the words, but those that qualify another;
    `parameters` the parameters."""

    tables: tuple[NamedTable, ...]
    equal: tuple[tuple[Named, tuple[Constant, ...]], ...]
    merges: bool
    said: Counter[str]
    parameters: Counter[int | str]


def asked_values(sql: str, dialect: Dialect) -> AskedValues:
    """`NoOutline` where the query is not one SELECT with a WHERE that is a chain of ANDs."""
    try:
        tokens = dialect.syntax.tokens(sql)
    except TokenError:
        raise NoOutline("it does not read") from None
    found = numbered(sql, tokens)
    outer = [place for place, word in enumerate(found) if not word.depth]
    _refuse_several(found[place] for place in outer)
    start = next((at for at in outer if found[at].word == "FROM" and found[at - 1].word != "DISTINCT"), len(found))
    where = next((at for at in outer if at > start and found[at].word == "WHERE"), None)
    if where is None:
        raise NoOutline("it has no WHERE")
    if any(found[at].word in ("OR", "CASE") for at in outer if at > where):
        raise NoOutline("its condition is no chain of ANDs")
    end = next((at for at in outer if at > where and _ends(found[at])), len(found))
    merges = any(word.word in ("USING", "NATURAL") for word in found[start:where])
    return AskedValues(
        tables=tuple(_tables(found[start:where])),
        equal=tuple(_equal(_conjuncts(found[where + 1 : end]))),
        merges=merges,
        said=_said(found),
        parameters=_parameters(found),
    )


def _refuse_several(outer: Iterator[Word]) -> None:
    said = Counter(word.word for word in outer)
    if said["SELECT"] != 1 or any(said[word] for word in _SETS):
        raise NoOutline("it is not one SELECT")


def _ends(word: Word) -> bool:
    return word.word.split(" ")[0] in _AFTER_WHERE or word.token.token_type == TokenType.SEMICOLON


def _said(found: Sequence[Word]) -> Counter[str]:
    pairs = zip(found, [*found[1:], None], strict=True)
    return Counter(one.token.text.lower() for one, after in pairs if after is None or after.word != ".")


def _parameters(found: Sequence[Word]) -> Counter[int | str]:
    spans = (found[place : place + size] for size in (1, 2) for place in range(len(found) + 1 - size))
    constants = map(_constant, spans)
    return Counter(one.parameter for one in constants if one is not None and one.parameter is not None)


def _tables(clause: Sequence[Word]) -> Iterator[NamedTable]:
    """Of FROM, with the word itself. Whatever is no name of a table is left out."""
    for place, word in enumerate(clause):
        if not word.depth and word.word in ("FROM", "JOIN", ",") and (table := _table(clause[place + 1 :])):
            yield table


def _table(rest: Sequence[Word]) -> NamedTable | None:
    schema, name = "", column(rest[:1])
    rest = rest[1:]
    if name is not None and rest and rest[0].word == ".":
        schema, name, rest = name.name, column(rest[1:2]), rest[2:]
    label = name
    if rest and (rest[0].word == "AS" or (rest[0].is_name and rest[0].word not in _NO_ALIAS)):
        rest = rest[rest[0].word == "AS" :]
        label, rest = column(rest[:1]), rest[1:]
    if name is None or label is None or (rest and rest[0].word == "("):
        return None  # a query, a function, or a table whose columns have other names here
    return NamedTable(schema, name.name, label.name)


def _conjuncts(condition: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """What stands between the ANDs; that of BETWEEN is no such AND."""
    part, inside = list[Word](), 0
    for word in condition:
        inside += not word.depth and word.word == "BETWEEN"
        if word.depth or word.word != "AND" or inside:
            inside -= not word.depth and word.word == "AND"
            part.append(word)
        else:
            yield part
            part = []
    if not part:
        raise NoOutline("its condition ends in the middle")
    yield part


def _equal(conjuncts: Iterator[Sequence[Word]]) -> Iterator[tuple[Named, tuple[Constant, ...]]]:
    for part in conjuncts:
        found = _equality(bared(part)) or _membership(bared(part))
        if found is not None:
            yield found


def _equality(part: Sequence[Word]) -> tuple[Named, tuple[Constant, ...]] | None:
    """`x = 3` or `3 = x`, and no more."""
    signs = [place for place, word in enumerate(part) if word.word in ("=", "==")]
    if len(signs) != 1:
        return None
    sides = part[: signs[0]], part[signs[0] + 1 :]
    for mine, other in (sides, sides[::-1]):
        named, constant = column(mine), _constant(other)
        if named is not None and constant is not None:
            return named, (constant,)
    return None


def _membership(part: Sequence[Word]) -> tuple[Named, tuple[Constant, ...]] | None:
    """`x IN (1, 2)`, and no more."""
    at = next((place for place, word in enumerate(part) if not word.depth and word.word == "IN"), None)
    if at is None or len(part) < at + 4 or part[at + 1].word != "(" or part[-1].word != ")":
        return None
    inner = part[at + 2 : -1]
    if any(not word.depth for word in inner):
        return None
    named = column(part[:at])
    constants = [_constant(one) for one in listed([Word(w.token, w.depth - 1, w.text) for w in inner])]
    known = tuple(one for one in constants if one is not None)
    return (named, known) if named is not None and len(known) == len(constants) else None


def _constant(side: Sequence[Word]) -> Constant | None:
    """A plain text, a number, or a parameter."""
    texts = [word.text for word in side]
    kinds = [word.token.token_type for word in side]
    match kinds:
        case [TokenType.STRING] if texts[0].startswith("'") and "\\" not in texts[0]:
            return Constant(side[0].token.text)
        case [TokenType.NUMBER]:
            return _number(texts[0])
        case [TokenType.DASH, TokenType.NUMBER]:
            return _number("-" + texts[1])
        case [TokenType.PLACEHOLDER] if texts[0][1:].isdecimal():
            return Constant(parameter=int(texts[0][1:]) - 1)
        case [TokenType.PARAMETER, TokenType.NUMBER] if texts[0] == "$" and texts[1].isdecimal():
            return Constant(parameter=int(texts[1]) - 1)
        case [TokenType.COLON, _] if texts[1].isidentifier():
            return Constant(parameter=texts[1])
    return None


def _number(text: str) -> Constant | None:
    """Whole ones alone: how a fraction is compared is the database's business."""
    digits = text.removeprefix("-")
    return Constant(int(text)) if digits.isdecimal() and digits.isascii() and len(digits) <= 18 else None
