"""Templates that nobody is subscribed to are let go of through the log: cells and catalog are as they were before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headwater
from headwater.engine.checkpoint_document import CheckpointContents, read_document
from headwater.engine.rows.work import Work
from headwater.engine.state.changelog import Changelog
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.manifest import read_manifest
from tests.support.databases import Place, place, rows
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

LIMITS = replace(DEFAULT, template_idle_ms=0, manifest_interval_ms=20)
QUERIES = (
    "SELECT id, n FROM t WHERE n = 3",
    "SELECT id, n FROM t ORDER BY n, id LIMIT 3",
    "SELECT t.id AS t, u.v FROM t JOIN u ON u.id = t.n",
    "SELECT t.id AS t, u.v FROM t JOIN u ON u.id = t.n WHERE u.v = 'b'",
    "SELECT t.id AS t, u.v FROM t LEFT JOIN u ON u.id = t.n",
    "SELECT n, count(*) AS c FROM t GROUP BY n",
    "SELECT id FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.n = u.id)",
    "SELECT DISTINCT n FROM t UNION SELECT id FROM u",
    "SELECT id, row_number() OVER (ORDER BY n, id) AS r FROM t",
)
STAYS = "SELECT id, v FROM u"


@pytest.fixture(autouse=True)
def _nothing_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.gateway.hub.windows._LINGER_S", 0.0)


@pytest.fixture(params=["1x1", "2x1"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place("embedded", tmp_path / "data", cells=request.param, limits=LIMITS) as one:
        one.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        one.write("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
        one.write("INSERT INTO t VALUES (1, 1), (2, 3), (3, 3), (4, 9)")
        one.write("INSERT INTO u VALUES (1, 'a'), (3, 'b'), (5, 'c')")
        yield one


def states(here: Place) -> list[tuple[CheckpointContents, int]]:
    """What each cell holds now, and how many windows."""
    pipeline = here.server.pipeline
    offset = pipeline.log_offset - 1
    cells = [pipeline.layout.cell(number) for number in range(pipeline.grid.cells)]
    eventually(lambda: all((one := read_manifest(cell)) is not None and one.offset >= offset for cell in cells))
    found = [read_manifest(cell) for cell in cells]
    documents = [read_document(one.state) for one in found if one is not None]
    return [(one, _windows(pipeline.layout.state(number), one)) for number, one in enumerate(documents)]


def _windows(directory: Path, document: CheckpointContents) -> int:
    return len(dict(Changelog(Work()).load(directory, document.windows)))


def _indexes(document: CheckpointContents) -> list[tuple[str, list[tuple[str, ...]]]]:
    return [(name, [columns for columns, *_ in one.indexes]) for name, one in document.stores.items()]


def shape(states: list[tuple[CheckpointContents, int]]) -> list[object]:
    """Without the rows."""
    return [([t.name for t in s.tables], _indexes(s), list(s.derived), s.templates, windows) for s, windows in states]


def leave(here: Place, live: headwater.LiveResult, windows: int) -> None:
    """The last one to go; some time later what it needed goes too. Here each window has a template of its own."""
    live.abort()
    eventually(lambda: len(here.server.hub._windows.held) == windows and _released(here) == windows)


def _released(here: Place) -> int:
    """How many templates are left."""
    here.server.pipeline.release()
    return len(here.server.pipeline._catalog.templates)


def is_exact(here: Place, live: headwater.LiveResult, sql: str) -> bool:
    return sorted(tuple(row.values()) for row in rows(live)) == sorted(here.source_rows(sql))


def test_one_after_the_other_they_leave_nothing_behind(here: Place) -> None:
    keeper = here.db.query(STAYS, live=True)
    for sql in ("SELECT id FROM t", STAYS):
        leave(here, here.db.query(sql, live=True), 1)
    before, status = shape(states(here)), here.db.status()
    for n, sql in enumerate([*QUERIES, *QUERIES]):
        live = here.db.query(sql, live=True)
        assert is_exact(here, live, sql)
        position = here.write_together(
            f"UPDATE t SET n = {n % 6} WHERE id = {n % 4 + 1}", f"INSERT INTO t VALUES ({n + 50}, {n % 7})"
        )
        assert live.wait(position) and is_exact(here, live, sql)
        leave(here, live, 1)
    assert shape(states(here)) == before
    after = here.db.status()
    assert {name: after[name] for name in ("windows", "subscriptions", "templates", "failure")} == {
        name: status[name] for name in ("windows", "subscriptions", "templates", "failure")
    }
    assert after["templates"] == 1
    assert keeper.wait(here.write("INSERT INTO u VALUES (77, 'z')")) and is_exact(here, keeper, STAYS)


def test_whoever_is_subscribed_keeps_what_a_neighbour_let_go_of(here: Place) -> None:
    """Two templates over one relation, in either order."""
    for first, second in ((QUERIES[2], QUERIES[3]), (QUERIES[3], QUERIES[2])):
        leaving, staying = here.db.query(first, live=True), here.db.query(second, live=True)
        leave(here, leaving, 1)
        assert staying.wait(here.write("UPDATE t SET n = 4 - n WHERE n IN (1, 3)")) and is_exact(here, staying, second)
        back = here.db.query(first, live=True)
        assert is_exact(here, back, first)
        back.abort()
        leave(here, staying, 0)


@pytest.mark.parametrize("crashed", [False, True])
def test_a_server_that_comes_back_begins_anew_with_what_was_let_go_of(crashed: bool, tmp_path: Path) -> None:
    """A crash: the catalog as it was before the release never comes back, but the log may lack the release."""
    url = f"sqlite:///{tmp_path / 'origin.db'}"
    with place("embedded", tmp_path / "data", url=url, limits=LIMITS) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT)")
        here.write("INSERT INTO t VALUES (1, 1), (2, 3)")
        here.write("INSERT INTO u VALUES (1, 'a'), (3, 'b')")
        live = here.db.query(QUERIES[2], live=True)
        if crashed:
            here.server.pipeline._catalog.release(live_template(here))
            here.server.pipeline._catalog.write(here.server.pipeline.layout.catalog)
        else:
            leave(here, live, 0)
        here.write("INSERT INTO t VALUES (5, 3)")
    with place("embedded", tmp_path / "data", url=url, limits=LIMITS) as here:
        assert here.db.status()["templates"] == 0
        again = here.db.query(QUERIES[2], live=True)
        assert again.wait(here.write("INSERT INTO t VALUES (6, 1)")) and is_exact(here, again, QUERIES[2])


def live_template(here: Place) -> str:
    [template] = here.server.pipeline._catalog.templates
    return template
