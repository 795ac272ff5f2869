"""What a live query is measured against: the same rows in SQLite and in DuckDB, and the query run again.

Both have the indexes a careful owner would make, one thread, and all rows in memory. Where DuckDB is not installed its
figures are absent, and the table says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

_INDEXES = (
    "CREATE INDEX orders_customer ON orders (customer)",
    "CREATE INDEX orders_amount ON orders (amount)",
)
Rows = Mapping[str, Sequence[pa.RecordBatch]]
HAVE_DUCKDB = importlib.util.find_spec("duckdb") is not None


class Reruns:
    """Both databases, filled once."""

    def __init__(self, rows: Rows) -> None:
        self._sqlite = _sqlite(rows)
        self._duckdb = _duckdb(rows) if HAVE_DUCKDB else None

    def sqlite_ms(self, sqls: Sequence[str]) -> float:
        """The mean of running each; rows are fetched, as Python objects."""
        return _mean_ms(lambda sql: self._sqlite.execute(sql).fetchall(), sqls)

    def duckdb_ms(self, sqls: Sequence[str]) -> float | None:
        """The mean of running each; rows are fetched, as Arrow."""
        duckdb = self._duckdb
        return None if duckdb is None else _mean_ms(lambda sql: duckdb.sql(sql).to_arrow_table(), sqls)

    def close(self) -> None:
        self._sqlite.close()
        if self._duckdb is not None:
            self._duckdb.close()


def _mean_ms(ask: Callable[[str], object], sqls: Sequence[str]) -> float:
    ask(sqls[0])
    before = time.process_time()
    for sql in sqls:
        ask(sql)
    return (time.process_time() - before) * 1000 / len(sqls)


def _sqlite(rows: Rows) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, status TEXT)")
    memory.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, region INTEGER, name TEXT)")
    memory.execute("BEGIN")
    for name, batches in rows.items():
        for batch in batches:
            marks = ", ".join("?" * batch.num_columns)
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            memory.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
    memory.execute("COMMIT")
    for index in _INDEXES:
        memory.execute(index)
    memory.execute("ANALYZE")
    return memory


def _duckdb(rows: Rows) -> Any:
    memory = importlib.import_module("duckdb").connect(config={"threads": 1})
    for name, batches in rows.items():
        memory.register("arriving", pa.Table.from_batches(batches))
        memory.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
        memory.unregister("arriving")
    memory.execute(_INDEXES[0])
    return memory
