"""A session of the hub: its subscriptions, what waits to be delivered, and the position it was told.

These are values; only the hub changes them, under its lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from headwater.gateway.hub.window_cache import Resume
from headwater.model.emission import Emission
from headwater.plan.planner import Planned


class Sink(Protocol):
    """Where a session's messages go. Called by the hub's thread; must not block."""

    def emit(self, subscription: str, emission: Emission) -> None: ...

    def ready(self, subscription: str, position: int) -> None: ...

    def resync(self, subscription: str, reason: str) -> None: ...

    def replanned(self, subscription: str, planned: Planned) -> None:
        """It is kept current in another way from its next result on."""

    def failed(self, subscription: str, reason: str) -> None: ...

    def closed(self, subscription: str, reason: str) -> None: ...

    def health(self, failure: str | None) -> None:
        """Why changes do not come just now; with None: they do again. Called by the monitor's thread."""

    def progress(self, position: int) -> None:
        """Everything up to this position has been handed over; now it counts."""


@dataclass(slots=True, eq=False)
class Subscription:
    id: str
    session: Session
    planned: Planned
    cell: int
    resume: Resume | None = None
    started: bool = False
    failure: str | None = None  # why the source does not answer it
    right_through: int = -1  # the last position said of a query that the source answers


@dataclass(frozen=True, slots=True)
class Joining:
    """A subscription to be: whose, under which id, to what, and where it stood before."""

    session: Session
    id: str
    planned: Planned
    resume: Resume | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """Something to hand over once all cells of the session have passed `tx`. An emission can be made up for."""

    tx: int
    deliver: Callable[[], None]
    is_emission: bool = False
    subscription: Subscription | None = None


@dataclass(slots=True, eq=False)
class Session:
    """`inbox` holds what has come from its cells and is not aligned yet. Where that became too much it was dropped;
    when the cells are past `behind`, fresh results make up for it.

    `position` is the last one it heard of. Of positions that do not concern it, it hears with the heartbeat; somebody
    who waits for one says so, and until `patience_s` hears of it at once, and of every answer that is right for it."""

    sink: Sink
    eager: bool = False
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    cells: Counter[int] = field(default_factory=Counter)
    answered: dict[str, Subscription] = field(default_factory=dict)
    inbox: list[Due] = field(default_factory=list)
    position: int = -1
    awaited: int | None = None
    patience_s: float = 0.0
    behind: int | None = None
    failure: str | None = None  # what it was told
