"""The manifest of a cell: its state, and the log offset of that state. Two are kept; the newest readable one counts.

Each has a checksum: a damaged manifest is skipped, and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from headwater.fs.atomic_write import draft_checked, read_checked
from headwater.fs.sync import sync_now
from headwater.model.errors import Corrupt


class Manifest(msgspec.Struct, frozen=True):
    """Everything up to and with log offset `offset` is in `state` and its `files`; `position` is the source's there.
    `leases` are those of the files that say to which boot each window belongs."""

    number: int
    offset: int
    position: int
    cells: int
    state: bytes
    files: tuple[str, ...]
    leases: tuple[str, ...]
    ended: int = 0


_KEPT = 2
_log = logging.getLogger("headwater.cell")
_DECODER = msgspec.msgpack.Decoder(Manifest)


def read_manifest(directory: Path) -> Manifest | None:
    """The newest manifest that reads, or none."""
    return next(read_manifests(directory), None)


def read_manifests(directory: Path) -> Iterator[Manifest]:
    """Those that read, the newest first."""
    return _readable(directory, newest_first=True)


def oldest_manifest(directory: Path) -> Manifest | None:
    """The oldest one kept: the cell may yet have to go back to it."""
    return next(_readable(directory, newest_first=False), None)


def _readable(directory: Path, *, newest_first: bool) -> Iterator[Manifest]:
    for path in sorted(_manifests(directory), key=_number, reverse=newest_first):
        if (manifest := _read(path)) is not None:
            yield manifest


def _read(path: Path) -> Manifest | None:
    """None where it went meanwhile, or is damaged."""
    try:
        return _DECODER.decode(read_checked(path))
    except OSError:
        return None
    except (Corrupt, msgspec.MsgspecError) as error:
        _log.error("skipping a manifest: %s", error)
        return None


def write_manifest(
    directory: Path,
    manifest: Manifest,
    fence: AbstractContextManager[None] | None = None,
    present: frozenset[str] | None = None,
) -> None:
    """Renames the manifest into place, inside the fence, then drops older ones and the files none of the kept needs:
    of those that were `present` when the state was saved."""
    path = directory / f"manifest-{manifest.number}"
    draft = draft_checked(path, msgspec.msgpack.encode(manifest))
    with fence or nullcontext():
        draft.replace(path)
    sync_now(directory)
    for path in sorted(_manifests(directory), key=_number)[:-_KEPT]:
        path.unlink(missing_ok=True)
    kept = _readable(directory, newest_first=True)
    _sweep(directory / "state", {file for one in kept for file in one.files}, present)


def _manifests(directory: Path) -> list[Path]:
    """Those in place: one that was still being written beside its place never counts."""
    return [path for path in directory.glob("manifest-*") if path.name.rpartition("-")[2].isdigit()]


def _number(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _sweep(directory: Path, needed: set[str], present: frozenset[str] | None) -> None:
    for path in directory.iterdir():
        if path.name not in needed and (present is None or path.name in present):
            path.unlink(missing_ok=True)
