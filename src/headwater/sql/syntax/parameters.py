"""Parameters: `?`, `?1`, `$1`, `:name`, `@name`, `$name` and the values given for them. A value becomes a constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headwater.model.errors import SqlError
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import Const
from headwater.sql.syntax.parse import Parsed
from headwater.sql.syntax.span import span
from headwater.sql.syntax.suggestions import did_you_mean

Given = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Params:
    """The constant for each placeholder, by where it starts in the text, and whose SQL the text is."""

    by_start: Mapping[int, Const]
    dialect: Dialect

    def const(self, node: exp.Placeholder) -> Const:
        return self.by_start[node.meta["start"]]


def bind_params(parsed: Parsed, given: Given) -> Params:
    found = {node.meta["start"]: node for node in parsed.select.find_all(exp.Placeholder)}
    places = [found[start] for start in sorted(found)]
    numbers = _numbers(places)
    _check_kinds(parsed.sql, places, numbers)
    _check_count(parsed.sql, places, numbers, given)
    by_start = {start: _const(parsed, node, numbers, given) for start, node in found.items()}
    return Params(by_start, parsed.dialect)


def _numbers(places: list[exp.Placeholder]) -> dict[int, int]:
    """The number of each positional placeholder, by start: a bare `?` is one more than the largest before it."""
    numbers: dict[int, int] = {}
    largest = 0
    for node in places:
        if isinstance(node.this, str) and node.this:
            continue
        number = node.this if isinstance(node.this, int) else largest + 1
        numbers[node.meta["start"]] = number
        largest = max(largest, number)
    return numbers


def _check_kinds(sql: str, places: list[exp.Placeholder], numbers: dict[int, int]) -> None:
    """Values come in order or by name; no list and no mapping has both."""
    named = [node for node in places if node.meta["start"] not in numbers]
    if named and numbers:
        name = f"{named[0].args['kind']}{named[0].this}"
        raise SqlError(
            f"expected parameters in order or by name, found both: {name} beside a numbered one or ?",
            sql=sql,
            at=span(named[0]),
            hint="name all of them and give a mapping, or none and give a list",
        )


def _check_count(sql: str, places: list[exp.Placeholder], numbers: dict[int, int], given: Given) -> None:
    if isinstance(given, Mapping) or len(numbers) < len(places):
        return  # `_given` says what is wrong with each
    expected = max(numbers.values(), default=0)
    if expected != len(given):
        raise SqlError(
            f"expected {_counted(expected, 'parameter')}, found {_counted(len(given), 'value')}",
            sql=sql,
            at=span(places[-1]) if places else None,
            hint="give one value per placeholder, in order",
        )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _const(parsed: Parsed, node: exp.Placeholder, numbers: dict[int, int], given: Given) -> Const:
    return parsed.dialect.syntax.given(_given(parsed.sql, node, numbers, given), parsed.sql, span(node))


def _given(sql: str, node: exp.Placeholder, numbers: dict[int, int], given: Given) -> Any:
    number = numbers.get(node.meta["start"])
    if number is None:
        return _named(sql, node, given)
    if isinstance(given, Mapping):
        raise SqlError(
            "expected values in order, found values by name", sql=sql, at=span(node), hint="write :name in the SQL"
        )
    if number < 1:
        raise SqlError("parameters are numbered from 1", sql=sql, at=span(node))
    return given[number - 1]


def _named(sql: str, node: exp.Placeholder, given: Given) -> Any:
    if not isinstance(given, Mapping):
        raise SqlError(
            f"expected a value for {node.args['kind']}{node.this} by name",
            sql=sql,
            at=span(node),
            hint="give the parameters as a mapping from name to value",
        )
    if node.this not in given:
        raise SqlError(
            f"expected a value for {node.args['kind']}{node.this}, found none",
            sql=sql,
            at=span(node),
            hint=did_you_mean(node.this, filter(_is_text, given), "add it to the parameters"),
        )
    return given[node.this]


def _is_text(name: object) -> bool:
    return isinstance(name, str)
