"""The recordings as they lie in the repository: one archive each, the same bytes for the same files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent


def archive(name: str, root: Path, folders: Iterable[str]) -> None:
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as tar:
        for folder in folders:
            for path in sorted(path for path in (root / folder).rglob("*") if path.is_file()):
                tar.add(path, str(path.relative_to(root)), filter=_plain)


def unpack(name: str, root: Path) -> None:
    with tarfile.open(HERE / f"{name}.tar.xz") as tar:
        tar.extractall(root, filter="data")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what differs between two machines."""
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.mode = 0, 0, 0, "", "", 0o600
    return entry
