"""A query of a database in memory could write: it was refused only after it had run."""

from __future__ import annotations

import pytest

from headwater.model.errors import HeadwaterError
from headwater.sources.sqlite.memory import MemorySource


def test_a_query_writes_nothing() -> None:
    source = MemorySource()
    source.execute("CREATE TABLE t (a)")
    source.execute("INSERT INTO t VALUES (1)")
    for sql in ("DELETE FROM t", "DELETE FROM t RETURNING a"):
        with pytest.raises(HeadwaterError):
            source.query(sql)
    assert source.query("SELECT a FROM t").rows == [(1,)]
    source.execute("DELETE FROM t")
    source.close()
