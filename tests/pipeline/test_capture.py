"""A capture that fails holds nobody up for ever; one that is fast does not let its source wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import headwater
from headwater.log.segment import SegmentWriter
from headwater.model.change import Change, Transaction
from headwater.model.errors import LogError
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.pipeline.capture import Capture
from headwater.pipeline.records.control import Schema
from headwater.sources.source import Item, SchemaChange, Source
from tests.support.databases import place, values
from tests.support.processes import eventually


def test_who_waits_for_a_capture_that_fails_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("embedded", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("CREATE TABLE u (id INTEGER PRIMARY KEY, n INTEGER)")
        known = here.db.query("SELECT id FROM t", live=True)
        source = here.server.pipeline.source
        changes = source.changes

        def failing(*arguments: Any, **options: Any) -> Iterator[Any]:
            raise headwater.SourceError("the disk cannot be read")

        monkeypatch.setattr(source, "changes", failing)
        monkeypatch.setattr(here.server.pipeline.capture, "_limits", replace(DEFAULT, capture_ms_max=50))
        eventually(lambda: here.server.pipeline.capture.failure is not None)
        position = here.write("INSERT INTO t VALUES (1, 1)")
        with pytest.raises(headwater.SourceError, match="the disk cannot be read") as refused:
            here.db.query("SELECT id FROM u WHERE n = 1", live=True)
        assert "subscribe again" in (refused.value.hint or "")
        monkeypatch.setattr(source, "changes", changes)
        monkeypatch.setattr(here.server.pipeline.capture, "_limits", DEFAULT)
        assert known.wait(position) and values(known) == [1]
        assert values(here.db.query("SELECT id FROM u WHERE n = 1", live=True)) == []


class Told:
    """A source that only hears what is durable."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def forget(self, position: int) -> None:
        self.positions.append(position)


def test_a_source_hears_what_is_durable_before_too_much_of_it_piles_up(tmp_path: Path) -> None:
    source = Told()
    with SegmentWriter(tmp_path) as log:
        limits = Limits(unsettled_changes_max=5)
        capture = Capture(cast(Source, source), log, 0, limits, lambda _: None, lambda *_: None)
        capture.tables["t"] = Table("t", (Column("id", Type.INTEGER),), ("id",))
        for position in range(1, 9):
            changes = tuple(Change("t", None, (10 * position + n,)) for n in range(2))
            capture.take([Transaction(position, changes)])
    assert source.positions == [3, 6]


class Once:
    """A source that tells everything once, as PostgreSQL's does of the end of a table while nothing else happens."""

    def __init__(self, *items: Item) -> None:
        self._items = list(items)

    def changes(self, after: int, timeout_s: float) -> list[Item]:
        items, self._items = self._items, []
        return items


def test_what_could_not_be_logged_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that ended while the disk was full: its queries were never told."""
    monkeypatch.setattr("headwater.pipeline.capture._RETRY_S", 0.01)
    table = Table("t", (Column("id", Type.INTEGER),), ("id",))
    asked: list[Schema] = []

    def on_schema(schema: Schema) -> None:
        asked.append(schema)
        if len(asked) < 3:
            raise LogError("the disk is full")

    with SegmentWriter(tmp_path) as log:
        source = Once(SchemaChange(5, table, None, "it was dropped"))
        capture = Capture(cast(Source, source), log, 5, DEFAULT, on_schema, lambda *_: None)
        capture.tables["t"] = table
        capture.start()
        eventually(lambda: len(asked) == 3 and "t" not in capture.tables)
        eventually(lambda: capture.failure is None)
        capture.stop()
    assert {one.table for one in asked} == {"t"}
