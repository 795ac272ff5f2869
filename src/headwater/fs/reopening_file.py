"""A file that is read again and again: it stays open, and is opened again where it was deleted meanwhile.

Never writes, and never notices a file that was renamed away: the code that renames it says so.
"""

from __future__ import annotations

import os
from pathlib import Path


class ReopeningFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def fileno(self) -> int:
        """FileNotFoundError, or NotADirectoryError, where there is none."""
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self.close()
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._file

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close
