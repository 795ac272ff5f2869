"""The windows that the source answers, by what concerns them: a table, or the values of a column that they ask for.

A change that concerns none of many windows costs a lookup per column that is asked for. Not safe for several threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, KeysView
from dataclasses import dataclass, field

from headwater.dialects.registry import DIALECTS
from headwater.model.change import Change
from headwater.model.schema import Table
from headwater.model.value import Value
from headwater.pipeline.requery.requeried_window import RequeriedWindow
from headwater.plan.requery_by_value import compared_as

Windows = dict[int, RequeriedWindow]


@dataclass(slots=True)
class _ByValue:
    """The windows that ask for values of one column: by the key of each value, and all of them."""

    windows: dict[Hashable, Windows] = field(default_factory=dict)
    every: Windows = field(default_factory=dict)


@dataclass(slots=True)
class _Readers:
    """Of one table: the windows that every change of it concerns, and by column those that ask for values."""

    always: Windows = field(default_factory=dict)
    columns: dict[tuple[str, str, str], _ByValue] = field(default_factory=dict)


class WindowIndex:
    def __init__(self) -> None:
        self._tables: dict[str, _Readers] = {}

    @property
    def tables(self) -> KeysView[str]:
        """All that any window reads."""
        return self._tables.keys()

    def add(self, instance: int, asked: RequeriedWindow) -> None:
        for name in asked.query.mask:
            readers, only = self._tables.setdefault(name, _Readers()), asked.query.only.get(name)
            if only is None:
                readers.always[instance] = asked
                continue
            column = readers.columns.setdefault(only.column, _ByValue())
            column.every[instance] = asked
            for key in only.keys:
                column.windows.setdefault(key, {})[instance] = asked

    def discard(self, instance: int, asked: RequeriedWindow) -> None:
        for name in asked.query.mask:
            readers, only = self._tables.get(name, _Readers()), asked.query.only.get(name)
            readers.always.pop(instance, None)
            if only is not None and only.column in readers.columns:
                _discard(readers.columns, only.column, only.keys, instance)
            if not readers.always and not readers.columns:
                self._tables.pop(name, None)

    def reading(self, table: str) -> Windows:
        """All windows that read a table."""
        readers = self._tables.get(table, _Readers())
        found = dict(readers.always)
        for column in readers.columns.values():
            found |= column.every
        return found

    def concerned(self, table: Table, change: Change) -> Iterator[Windows]:
        """The windows that a change may concern; some perhaps twice."""
        readers = self._tables.get(change.table)
        if readers is None:
            return
        if readers.always:
            yield readers.always
        places = {compared_as(column): place for place, column in enumerate(table.columns)} if readers.columns else {}
        for name, column in readers.columns.items():
            place = places.get(name)
            if place is None:  # the column is another one than the keys were made for
                yield column.every
                continue
            for image in filter(None, (change.old, change.new)):
                yield _found(column, table, place, image[place])


def _found(column: _ByValue, table: Table, place: int, value: Value) -> Windows:
    """NULL equals nothing."""
    if value is None:
        return {}
    key = DIALECTS[table.dialect].requery.stored_key(table.columns[place], value)
    return column.every if key is None else column.windows.get(key, {})


def _discard(
    columns: dict[tuple[str, str, str], _ByValue], name: tuple[str, str, str], keys: frozenset[Hashable], instance: int
) -> None:
    column = columns[name]
    column.every.pop(instance, None)
    for key in keys:
        windows = column.windows.get(key, {})
        windows.pop(instance, None)
        if not windows:
            column.windows.pop(key, None)
    if not column.every:
        del columns[name]
