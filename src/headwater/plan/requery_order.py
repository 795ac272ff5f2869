"""The order of a query that nobody here could bind: which values of a row decide, where we compare as the source does.

A term is a result by its name or number, or is asked for as one more column. What is not clear is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.model.schema import Table
from headwater.sql.contracts.requery import DialectRequery
from headwater.sql.outline.order_terms import Sort
from headwater.sql.outline.outline import Outline
from headwater.sql.outline.sort_key import SortTerm
from headwater.sql.outline.tokens import NoOutline


def terms_of(
    found: Outline, results: Sequence[str], tables: Mapping[str, Table], rules: DialectRequery
) -> Iterator[SortTerm]:
    """`NoOutline` where it is not clear what a term means."""
    for sort in found.order:
        result = _result(sort, results, found, tables, rules) if rules.may_name_result(sort) else None
        yield SortTerm(sort, result, rules.collation(sort, result, found, tables))


def _result(
    sort: Sort, results: Sequence[str], found: Outline, tables: Mapping[str, Table], rules: DialectRequery
) -> int | None:
    if sort.number is not None:
        if not 1 <= sort.number <= len(results):
            raise NoOutline(f"it orders by {sort.whole}")
        return sort.number - 1
    places = [place for place, name in enumerate(results) if sort.name and name.lower() == sort.name.lower()]
    if not places:
        return None
    if len(places) > 1 or not rules.means_result(sort, results[places[0]], found, tables):
        raise NoOutline(f"its order by {sort.whole} may mean several things")
    return places[0]
