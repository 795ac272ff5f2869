"""Ranges: what the selectors of a template ask of a column, as ranges of encoded values.

`c IN (1, 2)` is two ranges of one value each; `c < 5` is one, from behind NULL up to 5, so that NULL is in none. The
order of encodings is the order of values, and none is a prefix of another unless 0xff follows: so a value with 0xff
appended stands behind the value and before the next one. Two ranges of one column never overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.dialects.registry import DIALECTS
from headwater.engine.rows.arrays import Bools
from headwater.model.encoding.keys import encode_columns, encode_value, encode_whole
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Row, Type, type_of
from headwater.plan.template import Instance, Selector, Template
from headwater.sql.ir.conjunction import chain
from headwater.sql.ir.expr import Call, ColumnRef, Const

Span = tuple[bytes, bytes]  # from here on, up to there
Spans = tuple[Span, ...]  # in their order

_LAST = b"\xff"
_SPANS_MAX = 16  # so many are each compared with all rows
_PLAIN = (Type.INTEGER, Type.REAL, Type.TEXT, Type.BLOB)
_from = itemgetter(0)


def behind(encoded: bytes) -> bytes:
    return encoded + _LAST


_EVERYTHING: Span = (behind(encode_value(None)), _LAST)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a group asks for besides its keys: `spans` of each of the `columns`, and what they were made of."""

    columns: tuple[str, ...]
    spans: tuple[Spans, ...]
    conditions: tuple[tuple[Selector, Row], ...]

    @property
    def key(self) -> bytes:
        """The same for groups that want the same. Ends are told apart by their lengths."""
        ends = [end for spans in self.spans for span in spans for end in span]
        sizes = [*(len(spans) for spans in self.spans), *map(len, ends)]
        return b"".join([*ends, *(size.to_bytes(4, "big") for size in sizes)])

    def mask(self, rows: pa.RecordBatch, table: Table) -> Bools:
        """Which rows it wants, by what they hold in its columns."""
        plain = all(_is_plain(rows, table, name) for name in self.columns)
        if rows.num_rows > SMALL.wanted_rows and plain and not self._asks_for_nan():
            condition = chain("and", [_call(*each, table) for each in self.conditions])
            kernel = DIALECTS[table.dialect].evaluator.plain_kernel(condition, table)
            with suppress(pa.ArrowInvalid):  # in doubt: their encodings decide
                if kernel is not None:
                    passed: Bools = np.asarray(kernel.evaluate(rows).fill_null(0)) != 0
                    return passed
        if rows.num_rows > SMALL.wanted_rows and all(len(spans) <= _SPANS_MAX for spans in self.spans):
            pairs = zip(self.spans, self.columns, strict=True)
            each = [_inside(spans, _whole_column(rows, table, name)) for spans, name in pairs]
            return np.array(np.logical_and.reduce(each), np.bool_)
        columns = [encoded_column(rows, table, name) for name in self.columns]
        return np.array([self.has(row) for row in zip(*columns, strict=True)], np.bool_)

    def _asks_for_nan(self) -> bool:
        return any(value != value for _, values in self.conditions for value in values)

    def has(self, row: Sequence[bytes]) -> bool:
        return all(map(within, self.spans, row))


def _is_plain(rows: pa.RecordBatch, table: Table, name: str) -> bool:
    """Whether Arrow compares as the source does: of NaN only the encodings know where it stands."""
    type = table.column(name).type
    return type in _PLAIN and (type is not Type.REAL or not pc.any(pc.is_nan(rows.column(table.index(name)))).as_py())


def within(spans: Spans, value: bytes) -> bool:
    at = bisect_right(spans, value, key=_from) - 1
    return at >= 0 and value < spans[at][1]


def _inside(spans: Spans, encoded: pa.Array) -> Bools:
    """`within`, of many values at once."""
    found = np.zeros(len(encoded), np.bool_)
    for low, high in spans:
        first, past = (pa.scalar(end, pa.large_binary()) for end in (low, high))
        found |= np.asarray(pc.and_(pc.greater_equal(encoded, first), pc.less(encoded, past)))
    return found


def _whole_column(rows: pa.RecordBatch, table: Table, name: str) -> pa.Array:
    column = table.column(name)
    return encode_whole([rows.column(table.index(name))], [column.type], [column.collation], [False], [True])


def encoded_column(rows: pa.RecordBatch, table: Table, name: str) -> list[bytes]:
    column = table.column(name)
    return encode_columns([rows.column(table.index(name))], [column.type], [column.collation])


def selected_columns(template: Template) -> tuple[str, ...]:
    """The columns of the selectors, those first that say most: one of a list, then one by bounds."""
    listed = [each.column for each in template.selectors if each.op == "in"]
    bounded = list(dict.fromkeys(each.column for each in template.selectors if each.op != "in"))
    return (*listed[:1], *bounded[:1], *listed[1:], *bounded[1:])


def wanted(template: Template, instance: Instance, table: Table) -> Wanted:
    given, columns = instance.selected(template), selected_columns(template)
    by_column = [[(one.op, values) for one, values in given if one.column == name] for name in columns]
    spans = [_spans(asked, table.column(name).collation) for name, asked in zip(columns, by_column, strict=True)]
    return Wanted(columns, tuple(spans), given)


def _spans(asked: Sequence[tuple[str, Row]], collation: str) -> Spans:
    low, high = _EVERYTHING
    for op, values in asked:
        encoded = sorted({encode_value(each, collation=collation) for each in values})
        if op == "in":
            return tuple((each, behind(each)) for each in encoded)
        end = _END[op](encoded[0])
        low, high = (end, high) if op.startswith(">") else (low, end)
    return ((low, max(low, high)),)


def _same(encoded: bytes) -> bytes:
    return encoded


_END: dict[str, Callable[[bytes], bytes]] = {">": behind, ">=": _same, "<": _same, "<=": behind}


def _call(selector: Selector, values: Row, table: Table) -> Call:
    column = table.column(selector.column)
    constants = (Const(each, type_of(each)) for each in values)
    reference = ColumnRef(column.name, column.type, collation=column.collation)
    return Call(selector.op, (reference, *constants), Type.INTEGER, column.collation)
