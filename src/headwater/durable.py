"""Small files that are either the old whole or the new whole, whenever the power goes."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Writes beside, syncs, renames into place, syncs the directory."""
    beside = path.with_name(f"{path.name}.{threading.get_ident()}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
