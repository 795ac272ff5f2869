"""The catalog: captured tables, arranged keys, active templates and boots, so that their work is not repeated.

Losing it costs a hydration, never a row: the log is the only truth.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.model.errors import Corrupt
from headwater.model.schema import Table

_writing = threading.Lock()
_log = logging.getLogger("headwater.pipeline")


class Arranged(msgspec.Struct, frozen=True):
    """A table or relation by keys, in all cells; or, where there are no keys to spread it by, in its home alone."""

    name: str
    keys: tuple[str, ...]
    home: int | None


class Known(msgspec.Struct, frozen=True):
    """An active template: the table or relation it is arranged from, the base tables of that, its output names, and
    how it is arranged, unless the source answers it. `held` are the columns of base tables that cells hold for it,
    where each of them holds tables whole."""

    table: str
    tables: frozenset[str]
    names: tuple[str, ...]
    arranged: Arranged | None = None
    held: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)


class Catalog(msgspec.Struct):
    """`gen` tells the logs of two data directories of one source apart: it grows with time."""

    source: str
    cells: int
    gen: int
    boot: int = 0
    position: int | None = None
    tables: dict[str, Table] = msgspec.field(default_factory=dict)
    templates: dict[str, Known] = msgspec.field(default_factory=dict)
    arranged: set[Arranged] = msgspec.field(default_factory=set)

    def forget(self, table: str) -> None:
        self.tables.pop(table, None)
        for name in {known.table for known in self.templates.values() if table in known.tables}:
            self.forget_relation(name)

    def forget_relation(self, name: str) -> None:
        self.arranged = {one for one in self.arranged if one.name != name}
        self.templates = {id: known for id, known in self.templates.items() if known.table != name}

    def expel(self, name: str) -> None:
        """One template, or all that is made of a relation or table: which itself is still captured."""
        if not self.release(name):
            for made in {name, *(known.table for known in self.templates.values() if name in known.tables)}:
                self.forget_relation(made)

    def release(self, template: str) -> bool:
        """Forgets a template, and its rows if no other has them so: whoever asks for them reads them anew."""
        known = self.templates.pop(template, None)
        if known is None:
            return False
        if known.arranged is not None and all(one.arranged != known.arranged for one in self.templates.values()):
            self.arranged.discard(known.arranged)
        return True

    def forget_relations(self, table: str) -> None:
        """Those that read the table: they began with types that it no longer has. What the source answers goes on."""
        followed = [known for known in self.templates.values() if known.arranged is not None]
        for name in {known.table for known in followed if table in known.tables} - {table}:
            self.forget_relation(name)

    def holds(self, table: str, columns: Iterable[str]) -> bool:
        """Whether the cells hold the table, with these columns."""
        held = (known.held.get(table, frozenset()) for known in self.templates.values())
        return any(table in known.held for known in self.templates.values()) and set(columns) <= set().union(*held)

    def write(self, path: Path) -> None:
        with _writing:  # what was known first must not come last
            write_checked(path, msgspec.msgpack.encode(self))


def read_catalog(path: Path) -> Catalog | None:
    """None where there is none, or none that reads."""
    try:
        return msgspec.msgpack.decode(read_checked(path), type=Catalog)
    except FileNotFoundError:
        return None
    except (Corrupt, msgspec.MsgspecError) as error:
        _log.error("cannot read the catalog: %s", error)
        return None
