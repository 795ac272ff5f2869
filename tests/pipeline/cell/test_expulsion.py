"""A mistake of ours in one query must not stop the others: after a few failures at one place, that query ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.engine.operators.derived import Derived
from headwater.engine.windows.template_program import Program
from headwater.model.errors import Poisoned
from headwater.pipeline.cell import expulsion
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Expel
from tests.support.processes import eventually

ROWS = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 1), (2, 2)"
NEIGHBOUR = "SELECT id, n FROM t"


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with headwater.connect(f"sqlite:///{tmp_path / 'a.db'}", runner="inline", data_dir=tmp_path / "data") as db:
        for statement in ROWS.split("; "):
            db.execute(statement)
        yield db


@pytest.mark.parametrize(
    ("owner", "method", "sql"),
    [
        (Program, "see", "SELECT id AS culprit FROM t WHERE n > 0"),
        (Derived, "step", "SELECT a.id, b.n FROM t a JOIN t b ON b.id = a.id"),
    ],
)
def test_the_query_that_failed_ends_and_its_neighbour_goes_on(
    owner: Any, method: str, sql: str, db: headwater.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbour, culprit = db.query(NEIGHBOUR, live=True), db.query(sql, live=True)
    original = getattr(owner, method)

    def failing(self: Any, *args: Any, **named: Any) -> Any:
        if _is_culprit(self) and "666" in _told(args):
            raise ZeroDivisionError("a mistake of ours")
        return original(self, *args, **named)

    monkeypatch.setattr(owner, method, failing)
    db.execute("UPDATE t SET n = 666 WHERE id = 2")
    assert neighbour.wait(db.position())
    assert {"id": 2, "n": 666} in neighbour.rows
    eventually(lambda: culprit.state == "closed")
    assert culprit.reason is not None and "a mistake of ours" in culprit.reason
    eventually(lambda: neighbour.state == "ready")

    monkeypatch.undo()
    again = db.query(sql, live=True)
    db.execute("UPDATE t SET n = 7 WHERE id = 2")
    assert again.wait(db.position())
    db.verify(again)
    assert db.status()["failure"] is None


def _is_culprit(owner: Any) -> bool:
    return isinstance(owner, Derived) or owner.template.outputs[0].name == "culprit"


def _told(args: Any) -> str:
    told = args[0]
    if isinstance(told, dict):
        return str([part.batch.to_pylist() for parts in told.values() for part in parts])
    return str(told.to_pylist())


def test_failures_are_counted_by_place_and_culprit(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make(1)
    for name, after in (("one", 5), ("one", 5), ("other", 5), ("other", 6), ("other", 6)):
        expulsion.count(layout, 0, Poisoned(name, ValueError("x"), after))
        assert expulsion.verdict(layout, 0) is None
    expulsion.count(layout, 0, Poisoned("other", ValueError("x"), 6))
    assert expulsion.verdict(layout, 0) == Expel(0, 6, "other", "ValueError: x")
    assert expulsion.verdict(layout, 0) is None
