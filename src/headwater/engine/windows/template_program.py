"""Program: a template compiled against its table: which rows are in the result, how they look and where they sort.

It keeps no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.expressions.filter import RowFilter
from headwater.engine.expressions.project import RowProjector
from headwater.engine.ranking.sort_keys import packed
from headwater.engine.rows.arrays import Bools, Int64s
from headwater.model.encoding.keys import BEHIND, Uint64s, encode_columns, encode_whole
from headwater.model.schema import Table
from headwater.model.size import SMALL
from headwater.model.value import Type, held_in
from headwater.plan.template import Template
from headwater.sql.ir.expr import ColumnRef


@dataclass(frozen=True, slots=True)
class Projection:
    """`place[i]` is row i's place in `pool`, the projected rows that passed, or −1. `keys` are their sort keys.
    `failed` says of rows why they could not be evaluated; they have no place."""

    place: Int64s
    pool: pa.RecordBatch
    keys: Sequence[bytes]
    failed: dict[int, str]


class Program:
    """`hidden`: rows that look the same may be different rows: the key is not wholly shown, or there is none. `veiled`:
    there is none, and not every column is shown, so a row is identified by what it shows."""

    def __init__(self, template: Template, table: Table) -> None:
        self.template = template
        self._filter = RowFilter(template.where, table)
        self._project = RowProjector(template.outputs, table)
        self._order = Expressions([key.expr for key in template.order], table) if template.order else None
        order = template.order
        self._collations = [key.collation for key in order]
        self._descending, self._nulls_first = [key.descending for key in order], [key.nulls_first for key in order]
        is_shown = _shown(template) >= set(table.identity)
        self.hidden = not table.key or not is_shown
        self.veiled = not table.key and not is_shown

    @cached_property
    def nothing(self) -> Projection:
        """What is seen of no rows."""
        return Projection(np.zeros(0, np.int64), pa.RecordBatch.from_pylist([], schema=self._project.schema), [], {})

    @property
    def types(self) -> tuple[Type, ...]:
        return self._project.types

    @property
    def ordered(self) -> bool:
        return self._order is not None

    def project(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows known to be in the result, as they look there."""
        return self._project.apply(rows).rows

    def see(
        self, rows: pa.RecordBatch, id: Uint64s, among: Int64s | None = None, *, to_sort: bool = False
    ) -> Projection:
        """`among` are the rows to look at; None for all. `to_sort`: many keys are wanted only in their order."""
        count = rows.num_rows
        places = np.arange(count) if among is None else among
        looked = rows if among is None else rows.take(pa.array(among))
        filtered = self._filter.apply(looked)
        failed = {int(places[n]): why for n, why in filtered.failed.items()}
        if filtered.passed is not None:
            places, looked = places[filtered.passed], looked.filter(pa.array(filtered.passed))
        projected = self._project.apply(looked)
        keys, unsorted = self._sort_keys(looked, id[places], to_sort)
        failed.update({int(places[n]): why for n, why in {**projected.failed, **unsorted}.items()})
        if len(places) == count and not failed:
            return Projection(places, projected.rows, keys, failed)
        place = np.full(count, -1, np.int64)
        place[places] = np.arange(len(places))
        place[list(failed)] = -1
        return Projection(place, projected.rows, keys, failed)

    def _sort_keys(self, rows: pa.RecordBatch, id: Uint64s, to_sort: bool) -> tuple[Sequence[bytes], dict[int, str]]:
        """The encoded ORDER BY values, then the identity: equal rows of a key-less table still have an order."""
        if self._order is None:
            return [], {}
        evaluated = self._order.evaluate(rows)
        how = self._order.types, self._collations, self._descending, self._nulls_first
        if rows.num_rows > SMALL.encoded_rows:
            keys = packed(encode_whole(evaluated.columns, *how), id)
            if keys is not None:
                return keys if to_sort and rows.num_rows > SMALL.sort_key_rows else list(keys), evaluated.failed
        ends = [BEHIND + each for each in id.astype(">u8").view("V8").tolist()]
        return list(map(add, encode_columns(evaluated.columns, *how), ends)), evaluated.failed


def _shown(template: Template) -> set[str]:
    return {output.expr.name for output in template.outputs if isinstance(output.expr, ColumnRef)}


def identity_of(sort_key: bytes) -> int:
    return int.from_bytes(sort_key[-8:], "big")


def differ(pool: pa.RecordBatch, a: Int64s, b: Int64s) -> Bools:
    """For each pair of places whether any column looks different; NULL equals NULL, and -0.0 is not 0.0."""
    out = np.zeros(len(a), np.bool_)
    if not len(a):
        return out
    if pool.num_rows <= SMALL.compared_rows:
        rows = looks(pool)
        return np.array([rows[x] != rows[y] for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.bool_)
    left, right = pool.take(pa.array(a)), pool.take(pa.array(b))
    for x, y in zip(left.columns, right.columns, strict=True):
        out |= _differ(_bits(x), _bits(y))
    return out


def looks(pool: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Rows that are equal where nobody could tell them apart."""
    if not pool.num_columns:
        return [()] * pool.num_rows
    return list(zip(*(held_in(_bits(column)) for column in pool.columns), strict=True))


def _bits(column: pa.Array) -> pa.Array:
    """Doubles by their bits: to arithmetic -0.0 is 0.0, and NaN is nothing at all."""
    return column.view(pa.int64()) if column.type == pa.float64() else column


def _differ(x: pa.Array, y: pa.Array) -> Bools:
    one_null = np.asarray(x.is_null()) != np.asarray(y.is_null())
    unequal = np.asarray(pc.not_equal(x, y).fill_null(False))
    differs: Bools = one_null | unequal
    return differs
