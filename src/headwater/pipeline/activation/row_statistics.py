"""Statistics of rows that were read: how many pass the test of a scan, and how their values are spread.

Of a large table a sample is looked at. It reads hydration files and never the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.operators.compile import StepInput, Updates, compiled
from headwater.engine.operators.failures import Failures
from headwater.engine.rows.arrays import same
from headwater.engine.rows.work import Work
from headwater.model.schema import Table
from headwater.model.value import Type, from_array
from headwater.pipeline.records.control import Hydration
from headwater.plan.join_order.profile import Profile, Profiler, profile_of
from headwater.plan.join_order.statistics import ColumnStatistics, TableStatistics
from headwater.sql.ir.relation import Filter, Relation, Scan

_SAMPLE_ROWS, _SLICES = 1 << 16, 64
_COMMON_MAX = 1000


class LazyColumns(Mapping[str, ColumnStatistics]):
    """Statistics of columns, each computed when it is first asked for."""

    def __init__(self, names: Iterable[str], computed: Callable[[str], ColumnStatistics]) -> None:
        self._names, self._computed = list(names), computed
        self._known: dict[str, ColumnStatistics] = {}

    def __getitem__(self, name: str) -> ColumnStatistics:
        if name not in self._known:
            self._known[name] = self._computed(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def row_profiler(tables: Iterable[tuple[Table, int, Iterable[pa.RecordBatch]]]) -> Profiler:
    """Of tables with the number of their rows, and these rows. A scan and its test are run over them, or over a sample;
    everything above is estimated from there."""
    samples = {table.name: (table, rows, _sampled(table, rows, batches)) for table, rows, batches in tables}
    statistics = {name: _whole(*each) for name, each in samples.items()}

    def profile(relation: Relation) -> Profile:
        scan = relation.input if isinstance(relation, Filter) else relation
        if not isinstance(scan, Scan) or scan.table not in samples:
            return profile_of(relation, statistics)
        table, _, sample = samples[scan.table]
        return _scanned(relation, scan, table, sample, statistics[scan.table])

    return profile


def hydration_profiler(hydrations: Iterable[Hydration], directory: Path) -> Profiler:
    return row_profiler((one.table, one.rows, _read(one, directory)) for one in hydrations)


def _read(hydration: Hydration, directory: Path) -> Iterator[pa.RecordBatch]:
    for file in hydration.files:
        with pa.memory_map(str(directory / file)) as mapped, pa.ipc.open_stream(mapped) as reader:
            yield from reader


def _sampled(table: Table, rows: int, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All of a small table; of a large one slices at equal distances."""
    empty = pa.RecordBatch.from_pylist([], schema=table.arrow)
    if rows <= _SAMPLE_ROWS:
        return pa.concat_batches([empty, *batches])
    width, distance = _SAMPLE_ROWS // _SLICES, rows // _SLICES
    slices: list[pa.RecordBatch] = []
    first = 0
    for batch in batches:
        start = -first % distance
        slices += [batch.slice(at, width) for at in range(start, batch.num_rows, distance)]
        first += batch.num_rows
    return pa.concat_batches([empty, *slices])


def _whole(table: Table, rows: int, sample: pa.RecordBatch) -> TableStatistics:
    def computed(name: str) -> ColumnStatistics:
        return column_statistics(sample.column(name), table.column(name).type, rows)

    return TableStatistics(rows, LazyColumns(table.names, computed))


def _scanned(relation: Relation, scan: Scan, table: Table, sample: pa.RecordBatch, whole: TableStatistics) -> Profile:
    """The rows that pass the test of a scan. Different values are counted before it."""
    tree = compiled(relation, {table.name: table}, Work(), Failures())
    count = sample.num_rows
    rows = {table.name: Updates(sample, same(0, count), same(1, count))}
    found = tree.step(StepInput(rows, first=True))
    total = whole.rows * len(found) / count if count else 0.0
    named = {column.name: name for name, column in zip(scan.names, scan.columns, strict=True)}

    def computed(name: str) -> ColumnStatistics:
        own = column_statistics(found.rows.column(name), tree.table.column(name).type, total)
        return replace(own, distinct=max(own.distinct, whole.columns[named[name]].distinct))

    return Profile(total, LazyColumns(named, computed))


def column_statistics(values: pa.Array, type: Type, total: float) -> ColumnStatistics:
    """`total` rows, of which these are all or a sample."""
    sampled = len(values)
    if not sampled:
        return ColumnStatistics(0.0)
    counted = pc.value_counts(values.drop_null())
    counts = np.asarray(counted.field("counts"))
    distinct = _scaled(counts, sampled, total)
    several = np.flatnonzero(counts > 1)
    often = several[np.argsort(-counts[several], kind="stable")][:_COMMON_MAX]
    common = from_array(counted.field("values").take(pa.array(often)), type)
    shares = (counts[often] / sampled).tolist()
    return ColumnStatistics(distinct, values.null_count / sampled, dict(zip(common, shares, strict=True)))


def _scaled(counts: np.typing.NDArray[np.int64], sampled: int, total: float) -> float:
    """How many different values all rows have, by how many were met once in a sample (Haas and Stokes' Duj1)."""
    distinct, once = len(counts), int((counts == 1).sum())
    if sampled >= total:
        return float(distinct)
    return float(sampled * distinct / max(sampled - once + once * sampled / total, 1.0))
