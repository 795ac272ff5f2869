"""What SQLite tells of the values of a table without ANALYZE."""

from __future__ import annotations

from headwater.sources.sqlite.memory import MemorySource


def test_a_unique_column_has_as_many_values_as_the_table_has_rows() -> None:
    source = MemorySource()
    source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b INTEGER, c INTEGER, d INTEGER)")
    source.execute("CREATE UNIQUE INDEX both ON t (b, c)")
    source.execute("CREATE UNIQUE INDEX some ON t (d) WHERE d > 3")
    source.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(n, n, n, n, n) for n in range(40)])
    found = source.statistics(["t"])["t"]
    assert found.rows == 40
    assert {name: each.distinct for name, each in found.columns.items() if name != "id"} == {"a": 40}
