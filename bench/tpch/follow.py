"""`python -m bench.tpch.follow`: one query followed in a separate process: its memory is its own, and it can be killed.

It prints a line of JSON as soon as it knows something: forms, first result, transactions, check.

The whole pipeline runs inline. Of a transaction's CPU, what `Dataflow.step` and `take` use is the engine's; the rest of
the process, without the thread that writes, is capture, log, cell and hub. Templates are built in this process.
"""

from __future__ import annotations

import cProfile
import json
import logging
import pstats
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from bench.tpch.queries import TpchQuery, query
from bench.tpch.rows import Population
from bench.tpch.server import change_offers, refresh
from headwater import LiveResult
from headwater.client.database import Database
from headwater.engine.dataflow import Dataflow
from headwater.model.errors import HeadwaterError
from headwater.model.limits import DEFAULT
from headwater.pipeline.planning.options import PlanOptions
from tests.support.databases import place

_LIMITS = replace(DEFAULT, build_bytes_min=1 << 60, build_pairs_min=1 << 60)
_SOON = replace(_LIMITS, move_ms_min=50)  # a run is short
_STATUS = Path("/proc/self/status")
_WARM = 2
Change = Callable[[psycopg.Connection[Any], Population, int], None]
_WAIT_S = 600.0  # who started us ends us sooner


def main(url: str, scale: float, number: int, first: int, transactions: int, profiled: bool, chooses: bool) -> None:
    logging.getLogger("headwater").setLevel(logging.CRITICAL)  # what it would say is told in the table
    asked, steps = query(number, scale), _Steps(cProfile.Profile() if profiled else None)
    with steps.counted(), tempfile.TemporaryDirectory() as scratch:
        how = {"limits": _SOON} if chooses else {"limits": _LIMITS, "options": PlanOptions("incremental")}
        with place("embedded", Path(scratch), url=url, **how) as opened:
            forms = {name: _strategy(opened.server.pipeline.plan, sql) for name, sql in _forms(asked).items()}
            _tell({"forms": forms})
            try:
                live = _opened(opened.db, asked, forms)
                change = refresh if asked.is_refreshed else change_offers
                turns = range(first, first + transactions)
                _tell({"changes": "RF1, RF2" if asked.is_refreshed else "offers"})
                _tell(_refreshed(opened.db, live, url, change, Population(scale), turns, steps))
                _tell({"strategy": live.strategy})
                _tell({"check": _checked(opened.db, live, asked)})
            except HeadwaterError as error:
                _tell({"check": f"{type(error).__name__}: {error}"})
    if steps.profile is not None:
        pstats.Stats(steps.profile, stream=sys.stderr).sort_stats("cumulative").print_stats(60)


def _forms(asked: TpchQuery) -> dict[str, str]:
    return {"standard": asked.standard, "rewritten": asked.rewritten}


def _strategy(plan: Callable[[str], Any], sql: str) -> str:
    try:
        return str(plan(sql).strategy)
    except HeadwaterError as error:
        return f"refused: {error}"


def _opened(db: Database, asked: TpchQuery, forms: dict[str, str]) -> LiveResult:
    """The first form that is incremental, and not refused for its size; the standard's where none is."""
    names = [name for name, how in forms.items() if how == "incremental"] or ["standard"]
    for name in names[:-1]:
        try:
            return _first(db, asked, name)
        except HeadwaterError as error:
            _tell({"refused": f"{name}: {error}"})
    return _first(db, asked, names[-1])


def _first(db: Database, asked: TpchQuery, form: str) -> LiveResult:
    _tell({"form": form})
    resident, cpu_s, began_s = _bytes("VmRSS"), time.process_time(), time.monotonic()
    live = db.query(_forms(asked)[form], live=True, timeout=_WAIT_S)
    took_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
    _tell({"first_s": took_s, "first_cpu_s": used_s, "peak_bytes": _bytes("VmHWM") - resident, "rows": len(live.rows)})
    return live


def _refreshed(
    db: Database, live: LiveResult, url: str, change: Change, population: Population, turns: range, steps: _Steps
) -> dict[str, float]:
    """The means of a transaction, in ms; each is waited for before the next."""
    wall_s = cpu_s = 0.0
    with psycopg.connect(url, autocommit=True) as own:
        for n in turns:
            if n == turns.start + _WARM:
                wall_s, cpu_s, steps.spent_s = 0.0, 0.0, 0.0
                steps.profiles = True
            before_s = time.process_time() - time.thread_time()
            change(own, population, n)
            committed_s = time.monotonic()
            live.wait(db.position(), timeout=_WAIT_S)
            wall_s += time.monotonic() - committed_s
            cpu_s += time.process_time() - time.thread_time() - before_s
    measured = max(1, len(turns) - _WARM)
    spent = {"transaction_ms": wall_s, "engine_cpu_ms": steps.spent_s, "other_cpu_ms": cpu_s - steps.spent_s}
    return {name: seconds * 1000 / measured for name, seconds in spent.items()}


@dataclass(slots=True)
class _Steps:
    """What the engine's steps cost, in seconds of CPU; and, where wanted, which functions."""

    profile: cProfile.Profile | None
    spent_s: float = 0.0
    profiles: bool = False

    def counted(self) -> Any:
        return mock.patch.multiple(Dataflow, step=self._timed(Dataflow.step), take=self._timed(Dataflow.take))

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            before_s = time.thread_time()
            if self.profiles and self.profile is not None:
                done = self.profile.runcall(work, *given)
            else:
                done = work(*given)
            self.spent_s += time.thread_time() - before_s
            return done

        return timed


def _checked(db: Database, live: LiveResult, asked: TpchQuery) -> str:
    """Against the effective query; and, but for rows that tie for the last place, against the standard's text."""
    db.verify(live, timeout=_WAIT_S)
    found = Counter(tuple(row.values()) for row in live.rows)
    every = Counter(tuple(row.values()) for row in db.query(asked.unlimited))
    count = every.total() if asked.limit is None else min(asked.limit, every.total())
    if found - every or found.total() != count:
        return f"differs from the standard's answer: {found.total()} rows, {(found - every).total()} not in it"
    return "equal"


def _bytes(field: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1]) * 1024


def _tell(known: dict[str, Any]) -> None:
    print(json.dumps(known), flush=True)


if __name__ == "__main__":
    _, url, scale, *counts, profiled, chooses = sys.argv
    number, first, transactions = map(int, counts)
    main(url, float(scale), number, first, transactions, profiled == "profile", chooses == "choose")
