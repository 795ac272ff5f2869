"""What is wrong with a file of a data directory. Reading goes on behind it: each file is looked at by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from headwater.model.errors import HeadwaterError


@dataclass(frozen=True, slots=True)
class Damage:
    """`file` is relative to the data directory."""

    file: str
    problem: str


@dataclass(slots=True)
class DamageList:
    root: Path
    found: list[Damage] = field(default_factory=list)

    def add(self, path: Path, problem: str) -> None:
        self.found.append(Damage(str(path.relative_to(self.root)), problem))

    @contextlib.contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """What the block raises about the file is noted. A file that a running server removed is no damage."""
        try:
            yield
        except FileNotFoundError:
            pass
        except HeadwaterError as error:
            self.add(path, error.message)
        except (OSError, ValueError, msgspec.MsgspecError, pa.ArrowException) as error:
            self.add(path, str(error))
