"""A cell goes on while its manifest is written: nothing counts before it is durable, and a failure is not forgotten."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headwater.fs import sync
from headwater.fs.sync import PendingSyncs, pending_syncs
from headwater.pipeline.cell.manifest import read_manifest
from tests.support.byhand import Works
from tests.support.processes import eventually


@pytest.fixture
def works(tmp_path: Path) -> Works:
    made = Works(tmp_path / "data")
    made.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    made.subscribe("SELECT id, n FROM t")
    made.run()
    made.cells[0]._saves_beside = True
    return made


def due(works: Works) -> None:
    """A manifest is due with the next turn."""
    works.now += 10.0
    works.write("INSERT INTO t SELECT count(*), 1 FROM t")
    works.run()


def saved(works: Works) -> int:
    manifest = read_manifest(works.pipeline.layout.cell(0))
    return 0 if manifest is None else manifest.offset


def test_a_cell_goes_on_while_the_disk_is_slow(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, cell, before = threading.Event(), works.cells[0], saved(works)
    wait = PendingSyncs.wait

    def slowly(self: PendingSyncs) -> None:
        assert disk.wait(600)
        wait(self)

    monkeypatch.setattr(PendingSyncs, "wait", slowly)
    due(works)
    begun = cell.applied
    (works.pipeline.layout.state(0) / "adopted").touch()  # by a template that comes meanwhile
    for _ in range(3):
        due(works)
    assert cell.applied > begun and saved(works) == before
    works.check()
    disk.set()
    eventually(lambda: saved(works) == begun)
    cell._manifests.wait()
    assert (works.pipeline.layout.state(0) / "adopted").exists()
    cell.save()
    assert saved(works) == cell.applied
    works.close()


def test_a_manifest_that_was_not_written_is_told_at_the_next_one(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, before = works.cells[0], saved(works)

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sync, "sync_now", full)
        due(works)
        assert cell._manifests._thread is not None
        cell._manifests._thread.join()
    with pytest.raises(OSError, match="No space"):
        due(works)
    assert saved(works) == before
    works.crash_cell(0)
    works.run()
    works.check()
    works.close()


def test_a_directory_is_synced_once_behind_the_files_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(sync, "sync_now", synced.append)
    with pending_syncs() as pending:
        for name in ("a", "b"):
            sync.sync(tmp_path / name)
            sync.sync(tmp_path)
    assert synced == []
    pending.wait()
    assert synced == [tmp_path / "a", tmp_path / "b", tmp_path]
