"""Manifests and what is cleared away: two are kept, the newest that reads counts, nothing goes that a restart needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.log.segment_file import list_segments
from headwater.model.limits import DEFAULT
from headwater.pipeline.cell.manifest import Manifest, oldest_manifest, read_manifest, write_manifest
from tests.support.byhand import Works


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    made = Works(tmp_path / "data", limits=replace(DEFAULT, segment_bytes_max=300, run_rows_min=2))
    made.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    for sql in ("SELECT id, n FROM t", "SELECT id FROM t WHERE n = 1 ORDER BY id LIMIT 2"):
        made.subscribe(sql)
    yield made
    made.close()


def grow(works: Works, start: int, count: int = 5) -> None:
    for n in range(start, start + count):
        works.write(f"INSERT OR REPLACE INTO t VALUES ({n % 11}, {n % 3})")
        works.run()
    works.cells[0].save()


def manifest(number: int, offset: int, *files: str) -> Manifest:
    return Manifest(number, offset, 0, 1, b"", files, ())


def test_two_manifests_are_kept_with_the_files_they_need(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    for number in range(1, 6):
        for name in (f"only-{number}", "always", "stray"):
            (tmp_path / "state" / name).touch()
        write_manifest(tmp_path, manifest(number, number * 10, f"only-{number}", "always"))
    assert sorted(path.name for path in tmp_path.glob("manifest-*")) == ["manifest-4", "manifest-5"]
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["always", "only-4", "only-5"]
    newest, oldest = read_manifest(tmp_path), oldest_manifest(tmp_path)
    assert newest is not None and oldest is not None and (newest.offset, oldest.offset) == (50, 40)


def test_manifests_are_ordered_by_number_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    for number in (8, 9, 10, 11):
        write_manifest(tmp_path, manifest(number, number))
    newest = read_manifest(tmp_path)
    assert newest is not None and newest.number == 11
    assert sorted(path.name for path in tmp_path.glob("manifest-*")) == ["manifest-10", "manifest-11"]


@pytest.mark.parametrize("left", [0, 1, 10, -1])
def test_a_torn_manifest_is_passed_over(tmp_path: Path, left: int) -> None:
    (tmp_path / "state").mkdir()
    for number in (1, 2):
        write_manifest(tmp_path, manifest(number, number * 10))
    newest = tmp_path / "manifest-2"
    newest.write_bytes(newest.read_bytes()[:left])
    found = read_manifest(tmp_path)
    assert found is not None and found.number == 1
    write_manifest(tmp_path, manifest(2, 25))
    found = read_manifest(tmp_path)
    assert found is not None and (found.number, found.offset) == (2, 25)


def test_a_manifest_with_any_flipped_bit_is_passed_over(tmp_path: Path) -> None:
    """One bit of its offset made wrong groups for good: the records between were applied twice, or never."""
    (tmp_path / "state").mkdir()
    for number in (1, 2):
        write_manifest(tmp_path, manifest(number, number * 10))
    newest = tmp_path / "manifest-2"
    whole = newest.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        newest.write_bytes(flipped)
        assert read_manifest(tmp_path) == manifest(1, 10), f"bit {bit}"


def spoil_manifest(works: Works) -> None:
    newest = max(works.pipeline.layout.cell(0).glob("manifest-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    newest.write_bytes(newest.read_bytes()[:20])


def spoil_state(works: Works) -> None:
    """A file that only the newest manifest needs."""
    directory = works.pipeline.layout.cell(0)
    newest, oldest = read_manifest(directory), oldest_manifest(directory)
    assert newest is not None and oldest is not None
    name = next(iter(set(newest.files) - set(oldest.files)))
    path = directory / "state" / name
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("spoil", [spoil_manifest, spoil_state])
def test_a_cell_goes_back_to_the_older_manifest(works: Works, spoil: Callable[[Works], None]) -> None:
    grow(works, 0)
    grow(works, 5)
    works.pipeline._retention.sweep()
    grow(works, 10)
    works.pipeline._retention.sweep()
    spoil(works)
    works.crash()
    works.resume()
    works.write("INSERT INTO t VALUES (100, 1)")
    works.run()
    works.check()
    grow(works, 20)
    works.check()


def test_with_no_manifest_left_a_cell_begins_at_the_beginning(works: Works) -> None:
    grow(works, 0)
    works.crash()
    for path in works.pipeline.layout.cell(0).glob("manifest-*"):
        path.unlink()
    works.resume()
    works.write("INSERT INTO t VALUES (100, 1)")
    works.run()
    works.check()


def test_whatever_is_cleared_away_a_restart_has_what_it_needs(works: Works, tmp_path: Path) -> None:
    """After every sweep the data directory is copied, as a power cut would leave it, and the copy must live on."""
    for n in range(12):
        grow(works, n * 4, 4)
        works.pipeline._retention.sweep()
        if n in (3, 7):
            works.subscribe(f"SELECT id FROM t WHERE n = {n % 3}")
        if n % 3 == 0:
            copied = tmp_path / f"copy-{n}"
            works.crash()
            shutil.copytree(works.data_dir, copied)
            works.data_dir = copied
            works.resume()
            works.write("DELETE FROM t WHERE id = 3")
            works.run()
            works.check()
    assert list_segments(works.pipeline.layout.log)[0] > 1, "something was cleared away"
    assert list(works.pipeline.layout.hydration.iterdir()) == []


def test_the_position_outlives_the_frames(works: Works) -> None:
    """All frames were cleared away: what the source sends again must still vanish, and what is new must not."""
    grow(works, 0)
    position = works.pipeline.capture.position
    for _ in range(4):
        works.pipeline._templates.expire()
        works.run()
        works.cells[0].save()
        works.pipeline._retention.sweep()
    works.write("INSERT INTO t VALUES (100, 1)")
    works.crash()
    works.resume()
    assert works.resumed_at == position
    works.run()
    works.check()


def test_a_lost_catalog_costs_a_hydration_and_never_a_row(works: Works) -> None:
    grow(works, 0)
    works.write("INSERT INTO t VALUES (100, 1)")
    works.crash()
    works.pipeline.layout.catalog.write_bytes(b"\xc1")
    gen = works.pipeline.gen
    works.resume()
    assert works.pipeline.gen >= gen
    works.run()
    works.write("DELETE FROM t WHERE n = 1")
    works.run()
    works.check()
