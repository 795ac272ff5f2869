"""A case that fails, made smaller while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from headwater.model.change import Change
from headwater.model.schema import Table
from headwater.model.value import Row
from tests.fuzz.case import Case, Commit, Event, Release, Subscribe, Unsubscribe, possible

T = TypeVar("T")
Fails = Callable[[Case], str | None]
_TRIES = 600


def shrunk(case: Case, fails: Fails, tries: int = _TRIES) -> Case:
    """`fails` tells the kind of a failure, None where there is none."""
    return smallest(case, fails, _smaller, tries)


def smallest(case: T, fails: Callable[[T], str | None], smaller: Callable[[T], Iterator[T]], tries: int) -> T:
    """Takes each smaller case that fails in the same way, until none does or enough were tried."""
    kind = fails(case)
    found = True
    while found:
        found = False
        for each in smaller(case):
            tries -= 1
            if tries < 0:
                return case
            if fails(each) == kind:
                case, found = each, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Bold cuts first."""
    for whole in (_simpler, _fewer_queries, _fewer_events, _fewer_rows, _fewer_changes, _fewer_tables, _fewer_columns):
        yield from (possible(each) for each in whole(case))


def _simpler(case: Case) -> Iterator[Case]:
    if case.partitions > 1:
        yield replace(case, partitions=1)
    if case.cut > 1:
        yield replace(case, cut=1)


def without(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Halves, quarters, … single items left out."""
    size = len(items) // 2 or len(items)
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def _fewer_queries(case: Case) -> Iterator[Case]:
    places = range(len(case.queries))
    if len(places) > 1:
        yield from (_with_queries(case, (place,)) for place in places)
        yield from (_with_queries(case, kept) for kept in without(places))


def _with_queries(case: Case, kept: tuple[int, ...]) -> Case:
    place = {old: new for new, old in enumerate(kept)}
    events: list[Event] = []
    for event in case.events:
        match event:
            case Subscribe(query) | Unsubscribe(query) | Release(query):
                events.extend([type(event)(place[query])] if query in place else [])
            case _:
                events.append(event)
    return replace(case, queries=tuple(case.queries[n] for n in kept), events=tuple(events))


def _fewer_events(case: Case) -> Iterator[Case]:
    for events in without(case.events):
        yield replace(case, events=events)


def _fewer_rows(case: Case) -> Iterator[Case]:
    for name, rows in case.rows.items():
        for fewer in without(rows):
            yield replace(case, rows={**case.rows, name: fewer})


def _fewer_changes(case: Case) -> Iterator[Case]:
    for place, event in enumerate(case.events):
        if isinstance(event, Commit):
            for changes in without(event.changes):
                yield replace(case, events=(*case.events[:place], Commit(changes), *case.events[place + 1 :]))


def _fewer_tables(case: Case) -> Iterator[Case]:
    for table in case.tables if len(case.tables) > 1 else ():
        others = tuple(each for each in case.tables if each is not table)
        events = tuple(_but(event, table.name) for event in case.events)
        yield replace(case, tables=others, rows={each.name: case.rows[each.name] for each in others}, events=events)


def _but(event: Event, table: str) -> Event:
    if not isinstance(event, Commit):
        return event
    return Commit(tuple(change for change in event.changes if change.table != table))


def _fewer_columns(case: Case) -> Iterator[Case]:
    for table in case.tables:
        for place, column in enumerate(table.columns):
            if column.name not in table.key:
                yield _without_column(case, table, place)


def _without_column(case: Case, table: Table, place: int) -> Case:
    narrow = replace(table, columns=(*table.columns[:place], *table.columns[place + 1 :]))

    def cut(row: Row) -> Row:
        return (*row[:place], *row[place + 1 :])

    def changed(change: Change) -> Change:
        if change.table != table.name:
            return change
        return Change(change.table, change.old and cut(change.old), change.new and cut(change.new))

    return replace(
        case,
        tables=tuple(narrow if each is table else each for each in case.tables),
        rows={**case.rows, table.name: tuple(cut(row) for row in case.rows[table.name])},
        events=tuple(Commit(tuple(map(changed, e.changes))) if isinstance(e, Commit) else e for e in case.events),
    )
