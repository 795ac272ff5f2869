"""What the cache of PostgreSQL's rows once had wrong."""

from __future__ import annotations

from pathlib import Path

from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.sources.postgres.catalog.captured_table import CachedRow, CapturedTable
from headwater.sources.postgres.row_cache.row_cache import LOOK_AHEAD_MIN, RowCache

_TABLE = Table("t", (Column("id", Type.INTEGER), Column("a", Type.TEXT)), ("id",))
_CAPTURE = CapturedTable(7, _TABLE, (0, 0), (0,), 0)


def test_a_table_that_changes_its_shape_among_many_changes_has_its_newest_rows(tmp_path: Path) -> None:
    """What was read ahead for all of them is older than what the first of them wrote."""
    cache = RowCache(tmp_path)
    cache.seed(_CAPTURE, [])
    cache.begin(_CAPTURE)
    ids = range(LOOK_AHEAD_MIN)
    cache.write(1, {(7, _CAPTURE.key((id, "old"))): CachedRow((id, "old"), 1) for id in ids})
    cache.freeze()
    with cache.looking_ahead((_CAPTURE, [id]) for id in ids):
        cache.write(2, {(7, _CAPTURE.key((0, "new"))): CachedRow((0, "new"), 1)})
        cache.reshape(3, _CAPTURE)
        held = cache.held(_CAPTURE, [0])
    assert held is not None
    assert held.row == (0, "new")
