"""A case lived on a real server: four connections write, and a client watches every query through the whole pipeline.

Nothing waits for anything while transactions come in. What the client was told is checked afterwards, in `witness`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import headwater
from headwater.model.emission import Diff, Emission
from tests.fuzz.living import Watched
from tests.fuzz.opened import opened
from tests.fuzz.postgres.case import Case, Query
from tests.fuzz.postgres.oracle import Journal, contents, journal, watch
from tests.fuzz.postgres.writers import fill, lived
from tests.fuzz.strategies import drawn_strategies
from tests.support.postgres import Postgres

_PATIENCE_S = 120.0


@dataclass(slots=True)
class Life:
    """`watched` are the subscriptions, `positions` where our log has each transaction, `ended` the rows at the end."""

    case: Case
    watched: list[tuple[Query, Watched]] = field(default_factory=list)
    current: dict[int, Watched] = field(default_factory=dict)
    refused: dict[Query, str] = field(default_factory=dict)
    journal: Journal = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    ended: list[list[str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def live(self, server: Postgres, database: str, directory: Path) -> None:
        url = server.url(database)
        with server.connect(database) as origin:
            fill(origin, self.case)
            watch(origin)
            with self._strategies(), opened(url, directory, by_key=self.case.by_key) as db:
                self._watch(db, url)
            self.journal, self.ended = journal(origin), contents(origin, self.case)

    def _strategies(self) -> contextlib.AbstractContextManager[None]:
        seed = self.case.strategies
        return contextlib.nullcontext() if seed is None else drawn_strategies(seed)

    def _watch(self, db: headwater.Database, url: str) -> None:
        marker = db.query("SELECT id, xid FROM journal", live=True)
        marker.listen(self._mark)
        early = [n for n in range(len(self.case.queries)) if n not in self.case.late]
        for n in early:
            self._subscribe(db, n)
        writing = threading.Thread(target=lambda: self.counts.update(lived(url, self.case.sessions)))
        writing.start()
        for n in self.case.late:
            self._subscribe(db, n)
        for n in self.case.turns:
            self._turn(db, n)
        writing.join()
        end = db.position()
        assert marker.wait(end, timeout=_PATIENCE_S), "the log never got to the end"
        for _, one in list(self.watched):
            with contextlib.suppress(headwater.HeadwaterError):  # closed: its troubles say why
                ended = one.until is not None or one.live.wait(end, timeout=_PATIENCE_S)
                assert ended or one.troubles, f"never right again: {one.sql}"
        for _, one in self.watched:
            if one.until is None:
                one.until = one.live.position if one.live.state == "closed" else end

    def _mark(self, emission: Emission | None) -> None:
        if emission is not None:
            assert isinstance(emission, Diff), emission
            (xid,) = {change.new["xid"] for change in emission.changes if change.new}
            assert emission.position not in self.positions.values(), "merged"
            self.positions[int(str(xid))] = emission.position

    def _turn(self, db: headwater.Database, n: int) -> None:
        """Who is there leaves, and who left comes again."""
        one = self.current.pop(n, None)
        if one is None:
            self._subscribe(db, n)
        else:
            one.leave()

    def _subscribe(self, db: headwater.Database, n: int) -> None:
        query = self.case.queries[n]
        try:
            live = db.query(query.sql, *query.params, live=True)
        except headwater.HeadwaterError as error:
            self.refused[query] = str(error)
            return
        planned = db._backend._planned[live.id]  # type: ignore[attr-defined]
        kept = planned if planned.strategy == "incremental" else None
        self.current[n] = Watched(query.sql, live, kept, db.position(), partial(self._began, query))
        self._began(query, self.current[n])

    def _began(self, query: Query, watched: Watched) -> None:
        """Once, or again where PostgreSQL does not tell what became of a partition."""
        self.watched.append((query, watched))
