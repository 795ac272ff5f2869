"""A table as Arrow: PostgreSQL's COPY, read by Arrow's CSV reader in blocks of rows. It neither begins nor ends
transactions."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sources.postgres.keeping import Captured
from headwater.sources.postgres.sessions import Connection
from headwater.sources.postgres.shape import quoted
from headwater.sources.postgres.types import BOOL

_PARSE = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)


def batches(db: Connection, capture: Captured, relation: str, rows_max: int) -> Iterator[Any]:
    """Record batches of the schema `table.arrow`, as the transaction of `db` sees the table."""
    named = zip(capture.table.names, capture.types, strict=True)
    columns = ", ".join(quoted(name) + ("::int4" if type == BOOL else "") for name, type in named)
    sql = f"COPY (SELECT {columns} FROM {relation}) TO STDOUT (FORMAT csv)"
    rows: list[bytes] = []
    with db.cursor().copy(sql.encode()) as copy:
        for row in copy:
            rows.append(bytes(row))
            if len(rows) == rows_max:
                yield _batch(rows, capture.table)
                rows.clear()
    if rows:
        yield _batch(rows, capture.table)


def _batch(rows: list[bytes], table: Table) -> Any:
    raw = {name: pa.large_string() if field.type is Type.BLOB else field.type.arrow for name, field in _named(table)}
    read = csv.read_csv(
        io.BytesIO(b"".join(rows)),
        read_options=csv.ReadOptions(column_names=list(raw), block_size=1 << 30, use_threads=False),
        parse_options=_PARSE,
        convert_options=csv.ConvertOptions(
            column_types=raw, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    columns = [_column(read.column(name), field.type) for name, field in _named(table)]
    return pa.record_batch(columns, schema=table.arrow)


def _named(table: Table) -> Iterator[tuple[str, Any]]:
    """By place: names of two columns may differ in ways that Arrow does not see."""
    return ((str(place), column) for place, column in enumerate(table.columns))


def _column(read: Any, type: Type) -> Any:
    whole = read.combine_chunks()
    if type is not Type.BLOB:
        return whole
    texts = whole.to_pylist()
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts], type=type.arrow)
