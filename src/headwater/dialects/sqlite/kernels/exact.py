"""Expressions evaluated by SQLite itself, in memory: exact by construction, and the fastest way for a few rows.

The rows go into a scratch table whose columns have the source's affinity and collation; the rendered expressions are
selected from it. It never opens a file and keeps no row between two calls.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

import pyarrow as pa

from headwater.dialects.sqlite.affinity import Affinity, affinity_of_type
from headwater.dialects.sqlite.functions import FORMATS
from headwater.dialects.sqlite.render import render
from headwater.model.budget import too_many_values, weighed
from headwater.model.limits import DEFAULT
from headwater.model.schema import Table
from headwater.model.value import Row, from_array
from headwater.sql.evaluation import Selected
from headwater.sql.ir.expr import Call, ColumnRef, Expr
from headwater.sql.ir.walk import children, references

_COLLATIONS = ("BINARY", "NOCASE", "RTRIM")
_TOO_LONG = "string or blob too big"
_TOO_LONG_MAX = DEFAULT.values_bytes_max // DEFAULT.value_bytes_max  # to try one costs as much as the longest


class SqliteKernel:
    """Evaluates `exprs` side by side. A row that makes SQLite raise fails alone."""

    def __init__(self, exprs: Sequence[Expr], table: Table) -> None:
        self._exprs, self._table = exprs, table
        self._places: list[int] = []
        self._insert = self._select = ""
        self._connection: sqlite3.Connection | None = None

    def select(self, batch: pa.RecordBatch) -> Selected:
        connection = self._connected()
        columns = [from_array(batch.column(place), self._table.columns[place].type) for place in self._places]
        connection.executemany(self._insert, zip(*columns, strict=True) if columns else [()] * batch.num_rows)
        try:
            return Selected(weighed(connection.execute(self._select)), {})
        except sqlite3.Error:
            return self._one_by_one(connection, batch.num_rows)
        finally:
            connection.execute("DELETE FROM scratch")

    def _one_by_one(self, connection: sqlite3.Connection, count: int) -> Selected:
        failed: dict[int, str] = {}
        too_long = itertools.count(1)

        def one(place: int) -> Row:
            try:
                return connection.execute(f"{self._select} WHERE rowid = ?", (place + 1,)).fetchone()  # type: ignore[no-any-return]
            except sqlite3.Error as error:
                failed[place] = str(error)
                if str(error) == _TOO_LONG and next(too_long) > _TOO_LONG_MAX:
                    raise too_many_values() from None
                return ()

        return Selected(weighed(map(one, range(count))), failed)

    def _connected(self) -> sqlite3.Connection:
        """Opened at first use: most templates see few rows, or only rows that have a kernel."""
        if self._connection is None:
            refs = list({ref.name: ref for expr in self._exprs for ref in references(expr)}.values())
            self._places = [self._table.index(ref.name) for ref in refs]
            self._insert = f"INSERT INTO scratch VALUES ({', '.join('?' * len(refs)) or 'NULL'})"
            self._select = f"SELECT {', '.join(map(render, self._exprs))} FROM scratch"
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            if not any(map(_formats, self._exprs)):  # at the limit of a length, it alone gives NULL and no error
                self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, DEFAULT.value_bytes_max)
            self._connection.execute("PRAGMA journal_mode = OFF")
            columns = ", ".join(map(_declared, refs)) or "empty"
            self._connection.execute(f"CREATE TABLE scratch ({columns})")
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    __del__ = close


def _formats(expr: Expr) -> bool:
    return (isinstance(expr, Call) and expr.name in FORMATS) or any(map(_formats, children(expr)))


def _declared(ref: ColumnRef) -> str:
    affinity = affinity_of_type(ref.sql_type) or Affinity.BLOB
    collation = ref.collation if ref.collation in _COLLATIONS else "BINARY"
    quoted = ref.name.replace('"', '""')
    return f'"{quoted}" {affinity} COLLATE {collation}'
