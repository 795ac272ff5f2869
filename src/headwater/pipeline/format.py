"""Which form the files of a data directory have. It grows whenever an older Headwater's files could be read wrongly."""

from __future__ import annotations

from pathlib import Path

from headwater.durable import write_durably
from headwater.model.errors import HeadwaterError

FORMAT = 4
_NAME = "format"


def claim_format(root: Path) -> None:
    """Marks a directory that is new as ours; one of another form is refused, and left as it is."""
    path = root / _NAME
    if path.exists():
        found = path.read_text().strip()
    elif (root / "catalog").exists():
        found = "1"  # the first one had no mark
    else:
        write_durably(path, f"{FORMAT}\n".encode())
        return
    if found != str(FORMAT):
        raise HeadwaterError(
            f"expected the data directory {root} in form {FORMAT}, found form {found!r}: "
            "another version of Headwater made it",
            hint="use that version, or a fresh --data-dir; live queries then begin anew",
        )
