"""A data directory is told as it is, damaged or not, and stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.inspection.data_directory import DirectoryReport, directory_report
from headwater.inspection.log_segments import RecordRange
from headwater.log.segment import SegmentReader
from headwater.model.errors import HeadwaterError
from headwater.pipeline.data_dir.format import FORMAT
from headwater.pipeline.data_dir.layout import Layout
from tests.inspection.recorded import recorded_directory
from tests.support.databases import place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return recorded_directory(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def layout(whole: Layout, tmp_path: Path) -> Layout:
    """A copy to damage."""
    shutil.copytree(whole.root, tmp_path, dirs_exist_ok=True)
    return Layout(tmp_path)


def looked_at(layout: Layout, count: int = 0, start: int | None = None) -> DirectoryReport:
    return directory_report(layout.root, RecordRange(count, start))


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def test_everything_is_told(whole: Layout) -> None:
    with SegmentReader(whole.log) as reader:
        offsets = []
        while records := reader.poll():
            offsets += [record.offset for record in records]
    report = looked_at(whole)
    assert report.damage == []
    assert report.format == str(FORMAT)
    assert report.catalog is not None
    assert (report.catalog.source, report.catalog.templates[0].names) == ("sqlite:///shop.db", ["id", "total"])
    assert sum(report.log.kinds.values()) == len(offsets) == sum(one.records for one in report.log.segments)
    assert report.log.next_offset == offsets[-1] + 1
    assert report.sizes["total"] > report.sizes["log"] > 0
    [cell] = report.cells
    assert cell.manifests[0].offset == offsets[-1] == cell.emitted
    assert len(cell.manifests) == 2
    assert cell.windows and cell.templates and cell.answered
    assert {"orders", "visits"} <= set(cell.tables)


def test_the_records_that_were_asked_for(whole: Layout) -> None:
    newest = looked_at(whole, 5).log.records
    assert [one.kind for one in newest][-1] == "END_EPOCH"
    assert len(newest) == 5
    first = looked_at(whole, 4, 1).log.records
    assert [one.offset for one in first] == [1, 2, 3, 4]
    everything = looked_at(whole, 1000, 1).log.records
    said = {one.kind: one.says for one in everything}
    assert "rows" in said["FRAME"] and "sql SELECT" in said["ACTIVATE"] and "reason " in said["SCHEMA"]
    assert all(one.tx == one.offset << 16 for one in everything)
    assert any(one.position for one in everything if one.kind == "FRAME")


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("format", "format"),
        ("catalog", "catalog"),
        ("log/head", "log/head"),
        ("log/*.segment", "segment"),
        ("cells/0/manifest-*", "manifest"),
        ("cells/0/state/*.arrow", "arrow"),
        ("hydration/*.arrow", "arrow"),
        ("cells/0/diffs/*.segment", "diffs"),
    ],
)
def test_a_flipped_byte_is_told_with_its_file(layout: Layout, name: str, damaged: str) -> None:
    path = max(layout.root.glob(name))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    found = looked_at(layout, 20).damage
    assert any(str(path.relative_to(layout.root)) == one.file for one in found), found
    assert all(one.problem for one in found)


def test_a_missing_state_file_is_told(layout: Layout) -> None:
    path = next(layout.state(0).iterdir())
    path.unlink()
    assert any(path.name in one.file for one in looked_at(layout).damage)


def test_rows_are_missed_only_while_a_cell_needs_them(layout: Layout) -> None:
    for path in layout.hydration.glob("*.arrow"):
        path.unlink()
    assert looked_at(layout).damage == []
    for path in layout.cell(0).glob("manifest-*"):
        path.unlink()
    assert {"missing" in one.problem for one in looked_at(layout).damage} == {True}


def test_nothing_is_written(whole: Layout) -> None:
    before = files(whole.root)
    looked_at(whole, 10)
    assert files(whole.root) == before


def test_a_running_server_is_not_disturbed(tmp_path: Path) -> None:
    with place("embedded", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        live = here.db.query("SELECT id, n FROM t WHERE n > ?", 1, live=True)
        for number in range(20):
            position = here.write("INSERT INTO t VALUES (?, ?)", number, number)
            report = directory_report(tmp_path, RecordRange(3))
            assert report.damage == []
            assert report.catalog is not None and report.catalog.tables == ["t"]
        assert live.wait(position) and len(live.rows) == 18


def test_what_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path, said in ((tmp_path, "nothing of one"), (tmp_path / "none", "no directory")):
        with pytest.raises(HeadwaterError, match=said):
            directory_report(path, RecordRange())
