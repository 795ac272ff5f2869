"""A live query that takes longer to set up than its caller waits: it is given out as it is, and goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client.database import Params
from tests.support.databases import WAYS, place, values
from tests.support.processes import eventually


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fails", [False, True])
def test_who_waits_for_less_time_gets_the_result_as_it_is(
    way: str, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(way, tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        here.write("INSERT INTO t VALUES (7)")
        go, backend = threading.Event(), here.db._backend
        open_now = backend.open

        def slowly(live_id: str, sql: str, params: Params) -> Any:
            assert go.wait(600)
            if fails:
                raise headwater.SourceError("the database is busy")
            return open_now(live_id, sql, params)

        monkeypatch.setattr(backend, "open", slowly)
        live = here.db.query("SELECT id FROM t", live=True, timeout=0.01)
        assert live.state == "initializing" and not live.rows
        go.set()
        eventually(lambda: live.state == ("closed" if fails else "ready"))
        if fails:
            assert live.reason == "the database is busy"
        else:
            assert values(live) == [7]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_refused_in_time_is_raised(way: str, tmp_path: Path) -> None:
    with place(way, tmp_path) as here, pytest.raises(headwater.HeadwaterError, match="no such table"):
        here.db.query("SELECT id FROM nowhere", live=True, timeout=20)
