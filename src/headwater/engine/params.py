"""The params join: which instances a row belongs to, by the encoded values of the template's keys.

ΔT ⋈ P is `join`; T ⋈ ΔP is the hydration of a new group. An instance's values are a key of a dictionary, so 100,000
instances cost a change what 100 do. It never evaluates an expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headwater.engine.names import Names
from headwater.engine.order import Frame, Ranked
from headwater.model.keys import encode_row, hash_encoded
from headwater.model.schema import Table
from headwater.plan.template import Instance, Template

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Window:
    """An instance as the engine keeps it: the tx of its last emission and of the one before; `names` are those of rows
    that are shown under another name than their identity."""

    instance: Instance
    group: Group
    frame: Frame
    seq: int = 0
    prev: int = 0
    names: Names = field(default_factory=Names)

    @property
    def rows(self) -> int:
        """How many rows the window shows."""
        return min(max(self.group.size - self.frame.start, 0), self.frame.end - self.frame.start)


@dataclass(slots=True, eq=False)
class Group:
    """The windows of a template that see the same rows: equal values, perhaps different frames.

    `failed` holds the rows whose evaluation raised, by identity; while there is one the windows are in error.
    `ranked` is kept where the template is ordered; `size` is the number of rows before any frame.
    """

    template: str
    key: bytes
    windows: list[Window] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    ranked: Ranked | None = None
    size: int = 0

    @property
    def error(self) -> str:
        """One reason, the same however the rows came."""
        return self.failed[min(self.failed)] if self.failed else ""


@dataclass(frozen=True, slots=True)
class Joined:
    """`number[i]` is the place in `groups` of row i's group, −1 where nobody asked for it."""

    number: Int64s
    groups: list[Group]


@dataclass(slots=True)
class Params:
    """The instances of one template, grouped by encoded values."""

    groups: dict[bytes, Group] = field(default_factory=dict)

    def join(self, encoded: Sequence[bytes] | None, matches: npt.NDArray[np.bool_] | None, count: int) -> Joined | None:
        """`encoded`: a key per row, None where there are no keys. `matches` leaves out rows that match nothing."""
        if encoded is None:
            groups = list(self.groups.values())
            return Joined(np.zeros(count, np.int64), groups) if groups and count else None
        found: dict[Group, int] = {}  # in the order of their numbers
        asked = map(self.groups.get, encoded)
        number = np.array([-1 if each is None else found.setdefault(each, len(found)) for each in asked], np.int64)
        if matches is not None:
            number[~matches] = -1
        return Joined(number, list(found)) if (number >= 0).any() else None


def encode_instance(template: Template, instance: Instance, table: Table) -> bytes:
    return encode_row(instance.values, [table.column(name).collation for name in template.keys])


def partition_salt(table: str, keys: tuple[str, ...]) -> int:
    return hash_encoded(encode_row((table, *keys), ("BINARY",) * (1 + len(keys))))


def partition_of(template: Template, instance: Instance, partitions: int) -> int:
    """The query partition an instance lives in: by the values of its keys, or by its template where there are none.

    Texts are folded as NOCASE does, so that values equal by either collation live together.
    """
    if not template.keys:
        return home_of(template, partitions)
    folded = hash_encoded(encode_row(instance.values, ("NOCASE",) * len(instance.values)))
    return (folded + partition_salt(template.table, template.keys)) % 2**64 % partitions


def home_of(template: Template, partitions: int) -> int:
    """Where all instances of a template without keys live."""
    return home(template.id, partitions)


def home(template_id: str, partitions: int) -> int:
    return hash_encoded(template_id.encode()) % partitions
