"""What the recordings have in common: a server that keeps its whole log, and the steps that are not just a write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from headwater.client.live import LiveResult
from headwater.model.limits import DEFAULT
from headwater.pipeline.records.control import Expel
from headwater.pipeline.retention import Retention
from tests.support.databases import Place, place
from tests.support.processes import eventually

Query = tuple[str, tuple[Any, ...]]
Statement = tuple[str, Sequence[Any]]
LIMITS = replace(
    DEFAULT,
    template_idle_ms=1,
    frame_bytes_max=8 << 10,  # large transactions are logged in parts
    segment_bytes_max=48 << 10,
)
BUILDS = replace(LIMITS, build_bytes_min=1)  # every template is built in a process of its own
_SETTLE_S = 60.0


@dataclass(slots=True)
class Recording:
    """The subscriptions of one server. `here` is the server of the present boot."""

    url: str
    data_dir: Path
    lives: list[LiveResult] = field(default_factory=list)

    @contextlib.contextmanager
    def boot(self, *, builds: bool = False) -> Iterator[Place]:
        limits = BUILDS if builds else LIMITS
        with (
            mock.patch.object(Retention, "sweep", lambda self: None),
            place("embedded", self.data_dir, url=self.url, limits=limits) as here,
        ):
            yield here
        self.lives.clear()

    def subscribe(self, here: Place, queries: Iterable[Query], strategy: str = "incremental") -> None:
        for sql, params in queries:
            live = here.db.query(sql, *params, live=True)
            assert live.strategy == strategy, f"{sql} is {live.strategy}"
            self.lives.append(live)

    def write(self, here: Place, *statements: Statement) -> None:
        """One transaction, waited for: so every window has its own diff, and every asked one its own answer."""
        with here.server.pipeline.source.transaction() as tx:
            for sql, params in statements:
                tx.execute(sql, params)
        self.settle(tx.position)

    def settle(self, position: int) -> None:
        for live in self.lives:
            if live.state == "ready":
                with contextlib.suppress(Exception):  # one that fails or ends meanwhile is part of the recording
                    live.wait(position, timeout=_SETTLE_S if live.state == "ready" else 0)

    def unsubscribe(self, count: int) -> None:
        for live in self.lives[:count]:
            live.abort(forget=True)
        del self.lives[:count]


def plain(*statements: str) -> list[Statement]:
    return [(statement, ()) for statement in statements]


def release(here: Place) -> None:
    """Templates without subscribers go at once, not after a minute."""
    pipeline, before = here.server.pipeline, here.server.pipeline.log_offset

    def released() -> bool:
        pipeline.release()
        return pipeline.log_offset > before

    eventually(released)


def expire(here: Place) -> None:
    """What the boot before had subscribed to, and no client took up again, ends: by a tick."""
    here.server.pipeline._templates.expire()


def expel(here: Place) -> None:
    """The log ends with this: a template ends in the cell at the record before, by a failure that is made up."""
    pipeline = here.server.pipeline
    template = min(pipeline._catalog.templates)
    pipeline._expel(Expel(0, pipeline.log_offset - 2, template, "a failure made up for the recording"))
