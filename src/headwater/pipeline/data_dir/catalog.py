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
from headwater.plan.join_order.order import JoinOrder

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


class MovedTemplate(msgspec.Struct, frozen=True):
    """Of a template that could be followed: the strategy that its windows were moved to, why, and the relation that it
    is followed by. A transaction cost `change_ms` while it was followed; it was moved so many `times`, back and
    forth."""

    strategy: str
    reason: str
    relation: str
    change_ms: float = 0.0
    times: int = 1


class RelationPlan(msgspec.Struct, frozen=True):
    """The order in which the joins of an active relation run; how often it was another before, and why it is not."""

    order: JoinOrder
    replans: int = 0
    reason: str = ""


class Catalog(msgspec.Struct):
    """`gen` tells the logs of two data directories of one source apart: it grows with time. `by_key` are the captured
    tables that are held by key, `whole` those that were so until a query needed all of their rows. `moved` are the
    active templates whose windows have another strategy than they were planned for. `plans` are those of relations
    whose joins have an order to choose."""

    source: str
    cells: int
    gen: int
    boot: int = 0
    position: int | None = None
    tables: dict[str, Table] = msgspec.field(default_factory=dict)
    templates: dict[str, Known] = msgspec.field(default_factory=dict)
    arranged: set[Arranged] = msgspec.field(default_factory=set)
    by_key: set[str] = msgspec.field(default_factory=set)
    whole: set[str] = msgspec.field(default_factory=set)
    moved: dict[str, MovedTemplate] = msgspec.field(default_factory=dict)
    plans: dict[str, RelationPlan] = msgspec.field(default_factory=dict)

    def forget(self, table: str) -> None:
        self.tables.pop(table, None)
        self.by_key.discard(table)
        for name in {known.table for known in self.templates.values() if table in known.tables}:
            self.forget_relation(name)

    def forget_relation(self, name: str) -> None:
        self.arranged = {one for one in self.arranged if one.name != name}
        self.templates = {id: known for id, known in self.templates.items() if known.table != name}
        self.moved = {id: moved for id, moved in self.moved.items() if id in self.templates}
        self.plans.pop(name, None)

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
        self.moved.pop(template, None)
        self._let_go(known)
        return True

    def _let_go(self, gone: Known) -> None:
        """Rows that a template had so, if no other has; and the plan of its relation, if it was the last."""
        if gone.arranged is not None and all(one.arranged != gone.arranged for one in self.templates.values()):
            self.arranged.discard(gone.arranged)
        if all(one.table != gone.table for one in self.templates.values()):
            self.plans.pop(gone.table, None)

    def ask(self, template: str, moved: MovedTemplate) -> None:
        """The source answers its windows from here on: nothing is held for it."""
        known = self.templates[template]
        self.moved[template] = moved
        self.templates[template] = Known(template, known.tables, known.names)  # it is known at every moment
        self._let_go(known)

    def follow(self, template: str, known: Known) -> None:
        """The source was not to answer its windows after all."""
        self.templates[template] = known
        self.moved.pop(template, None)
        if known.arranged is not None:
            self.arranged.add(known.arranged)

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
