"""A table as Arrow: PostgreSQL's COPY, read by Arrow's CSV reader in blocks of rows. It neither begins nor ends
transactions."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from headwater.model.schema import Table
from headwater.model.value import COUNTED, Row, Type, from_array, to_array
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.catalog.tables import qualified_name, quoted, read_types
from headwater.sources.postgres.server.connections import Connection
from headwater.sources.postgres.server.value_types import BUILT_IN, Parse
from headwater.sources.postgres.wire.messages import Cells

FIRST_DEFINED = 16384  # the oid of the first type that somebody made
_PARSE = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
_PARSED = frozenset({Type.BLOB, Type.INTERVAL, Type.OTHER})  # Arrow holds them in another form than their text


def batches(db: Connection, capture: CapturedTable, relation: str, rows_max: int) -> Iterator[Any]:
    """Record batches of the schema `table.arrow`, as the transaction of `db` sees the table."""
    types = BUILT_IN if max(capture.types, default=0) < FIRST_DEFINED else read_types(db)
    parsers = [types.parser(type) for type in capture.types]
    columns = ", ".join(map(quoted, capture.table.names))
    sql = f"COPY (SELECT {columns} FROM {relation}) TO STDOUT (FORMAT csv)"
    rows: list[Any] = []
    with db.cursor().copy(sql.encode()) as copy:
        for row in copy:
            rows.append(bytes(row))  # memoryviews by the thousand have Python collect garbage, and everybody wait
            if len(rows) == rows_max:
                yield _batch(rows, capture.table, parsers)
                rows.clear()
    if rows:
        yield _batch(rows, capture.table, parsers)


def row_of(db: Connection, capture: CapturedTable, named: Cells, xid: int) -> Row | None:
    """The row of a table that these cells name, as the transaction `xid` left it; None where another has changed it."""
    names = [quoted(capture.table.names[place]) for place in capture.identity]
    texts = [cell.decode() if isinstance(cell, bytes) else "" for cell in named]
    is_named = " AND ".join(f"{name} = {literal(text)}" for name, text in zip(names, texts, strict=True))
    relation = f"{qualified_name(capture.table.name)} WHERE {is_named} AND xmin::text = '{xid}'"
    found = list(batches(db, capture, relation, 2))
    if not found:
        return None
    columns = zip(found[0].columns, capture.table.columns, strict=True)
    return tuple(from_array(array, column.type)[0] for array, column in columns)


def literal(text: str) -> str:
    """Of no type yet: the column that it is compared with gives it its own."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _batch(rows: list[Any], table: Table, parsers: Sequence[Parse]) -> Any:
    types = [column.type for column in table.columns]
    whole = b"".join(rows)
    try:
        read = _read(whole, [pa.large_string() if type in _PARSED else type.arrow for type in types])
    except pa.ArrowInvalid:  # infinity and other moments that Arrow does not read
        read = _read(whole, [pa.large_string() if type in _PARSED or type in COUNTED else type.arrow for type in types])
    columns = [
        _column(read.column(n).combine_chunks(), type, parse)
        for n, (type, parse) in enumerate(zip(types, parsers, strict=True))
    ]
    return pa.record_batch(columns, schema=table.arrow)


def _read(whole: bytes, types: Sequence[pa.DataType]) -> pa.Table:
    """Columns by place: their names may differ in ways that Arrow does not see."""
    names = [str(place) for place in range(len(types))]
    return csv.read_csv(
        io.BytesIO(whole),
        read_options=csv.ReadOptions(column_names=names, block_size=1 << 30, use_threads=False),
        parse_options=_PARSE,
        convert_options=csv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _column(read: pa.Array, type: Type, parse: Parse) -> pa.Array:
    if read.type == type.arrow:
        return read
    return to_array([None if text is None else parse(text.encode()) for text in read.to_pylist()], type)
