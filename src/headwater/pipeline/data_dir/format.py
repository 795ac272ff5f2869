"""The format version of a data directory. It increases whenever files of an older version could be misread."""

from __future__ import annotations

import logging
from pathlib import Path

from headwater.fs.atomic_write import digest_of, write_durably
from headwater.model.errors import HeadwaterError
from headwater.pipeline.data_dir.catalog import read_catalog

FORMAT = 6
_NAME = "format"
_log = logging.getLogger("headwater.pipeline")


def claim_format(root: Path) -> None:
    """Marks a directory that is new as ours; one of another form is refused, and left as it is."""
    found = _form(root)
    if found is None:
        write_durably(root / _NAME, _mark(str(FORMAT)))
    elif found != str(FORMAT):
        raise HeadwaterError(
            f"the data directory {root} has format {found!r}, of another version of Headwater; "
            f"this version reads format {FORMAT}",
            hint="use that version, or a fresh --data-dir: live queries then restart from the database",
        )


def _form(root: Path) -> str | None:
    """None where it is ours to mark: it is new, or its mark was damaged or lost and its catalog is of this form."""
    mark = (root / _NAME).read_bytes() if (root / _NAME).exists() else b""
    form = mark.decode(errors="replace").partition(" ")[0].strip()
    if mark == _mark(form) or mark.strip().isdigit():  # before form 4 a mark had no checksum
        return form
    if not mark and not (root / "catalog").exists():
        return None
    if read_catalog(root / "catalog") is not None:
        _log.error("the format file of the data directory %s was missing or damaged, and is rewritten: %r", root, mark)
        return None
    return form or "1"  # the first one had no mark


def _mark(form: str) -> bytes:
    return f"{form} {digest_of(form.encode())}\n".encode()
