"""The doorbell rings for writes, creations and replacements: with inotify, and without."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headwater.fs import doorbell as doorbell_module
from headwater.fs.doorbell import Doorbell

LONG_S = 60.0


@pytest.fixture(params=["inotify", "polling"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "polling":
        monkeypatch.setattr(doorbell_module._Inotify, "open", lambda paths: None)
    else:  # only inotify may ring
        monkeypatch.setattr(doorbell_module, "_SAFETY_S", 1000)
    return str(request.param)


def rings(bell: Doorbell, act: Callable[[], object]) -> bool:
    """Acts while the bell is waited for."""
    timer = threading.Timer(0.02, act)
    timer.start()
    try:
        return bell.wait(LONG_S)
    finally:
        timer.join()


def quiet(bell: Doorbell) -> None:
    """Past the rings that are allowed after a change: once it has seen how the files look now."""
    while bell.wait(0.05) or bell._seen is None:
        pass


def overwrite(path: Path) -> None:
    """One byte in place: size and inode stay."""
    file = os.open(path, os.O_WRONLY)
    os.pwrite(file, b"y", 0)
    os.close(file)


def replace(path: Path) -> None:
    draft = path.with_suffix(".draft")
    draft.write_bytes(b"z")
    draft.rename(path)


def test_it_rings_for_every_write(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with Doorbell(path) as bell:
        for _ in range(5):
            quiet(bell)
            assert rings(bell, lambda: overwrite(path))


def test_what_rang_before_counts_once(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with Doorbell(path) as bell:
        quiet(bell)
        for _ in range(100):
            overwrite(path)
        assert bell.wait(0)
        quiet(bell)
        assert not bell.wait(0)


def test_a_file_may_come_later_and_be_replaced_and_removed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    with Doorbell(path) as bell:
        quiet(bell)
        for act in (Path.touch, overwrite, replace, overwrite, replace, overwrite, Path.unlink, Path.touch, overwrite):
            assert rings(bell, partial(act, path)), act
            quiet(bell)


def test_the_directories_above_may_come_later(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a" / "b" / "file"
    with Doorbell(path) as bell:
        quiet(bell)
        path.parent.mkdir(parents=True)
        quiet(bell)
        assert rings(bell, path.touch)
        quiet(bell)
        assert rings(bell, lambda: overwrite(path))


def test_a_directory_rings_for_anything_in_it(tmp_path: Path, way: str) -> None:
    with Doorbell(tmp_path) as bell:
        quiet(bell)
        assert rings(bell, (tmp_path / "new").touch)
        quiet(bell)
        assert rings(bell, lambda: overwrite(tmp_path / "new"))
        quiet(bell)
        assert rings(bell, (tmp_path / "new").unlink)


def test_neighbours_do_not_ring(tmp_path: Path, way: str) -> None:
    (tmp_path / "file").touch()
    with Doorbell(tmp_path / "file", tmp_path / "missing") as bell:
        quiet(bell)
        (tmp_path / "neighbour").write_bytes(b"x")
        overwrite(tmp_path / "neighbour")
        assert not bell.wait(0.02)
        assert rings(bell, lambda: (tmp_path / "missing").touch())


def test_the_look_beneath_inotify_rings_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a filesystem that another machine writes to."""
    monkeypatch.setattr(doorbell_module, "_SAFETY_S", 0.01)
    monkeypatch.setattr(doorbell_module._Inotify, "drain", lambda self: False)
    monkeypatch.setattr(doorbell_module._Inotify, "poll", lambda self, timeout_s: False)
    with Doorbell(tmp_path / "file") as bell:
        (tmp_path / "file").touch()
        assert bell.wait(LONG_S)


def test_without_inotify_there_is_nothing_to_select_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell_module._Inotify, "open", lambda paths: None)
    with Doorbell(tmp_path) as bell, pytest.raises(io.UnsupportedOperation, match=r"use wait\(\)"):
        bell.fileno()
    bell.close()
