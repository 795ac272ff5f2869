"""A first read of a PostgreSQL table that is cut in the middle, by who reads it: nobody need be in time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from headwater.sources.postgres import snapshots
from headwater.sources.postgres.catalog.captured_table import CapturedTable
from headwater.sources.postgres.copy import batches

ROWS, ROW_BYTES = 5000, 20_000  # more than all the buffers on the way hold: the server cannot be done
_ROWS_MAX, _BEFORE = 100, 2


@contextlib.contextmanager
def cut_readings(url: str, look: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Within, who reads a table gets two batches and no more; `look` is called just before the end."""

    def cut(reading: psycopg.Connection[Any], capture: CapturedTable, relation: str, rows_max: int) -> Iterator[Any]:
        for count, batch in enumerate(batches(reading, capture, relation, min(_ROWS_MAX, rows_max))):
            if count == _BEFORE:
                look()
                _end(url, reading.info.backend_pid)
            yield batch

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(snapshots, "batches", cut)
        yield


def _end(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        assert db.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,)).fetchone() == (True,)
