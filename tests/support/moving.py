"""A server whose queries are moved to another strategy, and back, and whose joins get another order, at random moments:
in this process, or, run as `python -m tests.support.moving`, as the server of the command line."""

from __future__ import annotations

import random
import sys
import threading
from types import TracebackType
from typing import Self
from unittest import mock

from headwater import cli
from headwater.client.database import Database
from headwater.client.embedded import Embedded
from headwater.gateway.server import Server
from headwater.model.errors import HeadwaterError
from headwater.pipeline.pipeline import Pipeline
from headwater.plan.join_order.random_order import random_order


def pipeline_of(db: Database) -> Pipeline:
    assert isinstance(db._backend, Embedded)
    return db._backend._pipeline


class Restless:
    """Moves a template at a time, but those over a journal; `moves` counts by strategy, `replans` the relations whose
    joins got another order. What it meets that is no refusal is raised at its end."""

    def __init__(self, pipeline: Pipeline, seed: int = 1, pause_s: float = 0.05) -> None:
        self._pipeline, self._chance, self._pause_s = pipeline, random.Random(seed), pause_s
        self.moves, self.replans = {"requery": 0, "incremental": 0}, 0
        self._stop, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure and error is None:
            raise self._failure[0]

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._chance.uniform(0.0, self._pause_s)):
                self._move()
                self._replan()
        except HeadwaterError:
            pass  # the server is about to end
        except BaseException as error:
            self._failure.append(error)

    def _move(self) -> None:
        known, moves = dict(self._pipeline._catalog.templates), self._pipeline.moves
        templates = sorted(id for id, one in known.items() if not any("journal" in name for name in one.tables))
        if templates:
            template = self._chance.choice(templates)
            self.moves["requery"] += moves.ask(template, "moved by a test")
            if self._chance.random() < 0.5:
                self.moves["incremental"] += moves.follow(template, "moved back by a test")

    def _replan(self) -> None:
        plans = sorted(self._pipeline._catalog.plans)
        if plans:
            relation = self._chance.choice(plans)
            over = [id for id, one in list(self._pipeline._catalog.templates.items()) if one.table == relation]
            found = [one for one in map(self._pipeline._usage.template, over) if one is not None and one.relation]
            order = random_order(found[0].relation, self._chance) if found and found[0].relation else None
            self.replans += self._pipeline.mover.replanner.look(relation, "planned anew by a test", order)


def main() -> int:
    start = Server.start

    def restless(server: Server) -> Server:
        start(server)
        Restless(server.pipeline, random.randrange(1 << 30)).__enter__()
        return server

    with mock.patch.object(Server, "start", restless):
        return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
