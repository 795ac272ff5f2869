"""`./dev bench tpch`: the 22 queries of TPC-H kept current while orders come and go, beside running them again.

Each query is followed in a process of its own, over the same PostgreSQL, with a deadline. A transaction is one of RF1
or RF2: an order with its lines comes, or goes. At the end every result is compared with the database's. A query that
costs more to follow than to ask again, the whole pipeline counted, is run once more with the strategy left open.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table as Grid

from bench.tpch.queries import NUMBERS, query
from bench.tpch.rows import Population
from bench.tpch.server import let_go, loaded

_RUNS = 7
_RUNS_S = 20.0  # then the runs there are must do
_WORDS = ("", "form", "strategy", "changes")
_FIGURES = {
    "first_s": "first s",
    "first_cpu_s": "CPU s",
    "peak_bytes": "peak MiB",
    "transaction_ms": "to result ms",
    "engine_cpu_ms": "engine CPU ms",
    "other_cpu_ms": "other CPU ms",
    "again_ms": "again ms",
    "again_cpu_ms": "again CPU ms",
}
_console = Console(width=190)
Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H's scale factor (default 0.1)")
    parser.add_argument("--queries", type=_numbers, default=NUMBERS, help="such as 1,3,6 (default: all)")
    parser.add_argument("--transactions", type=int, default=42, help="of a query, two to warm up (default 42)")
    parser.add_argument("--deadline", type=float, default=120.0, help="of a query, in seconds (default 120)")
    parser.add_argument("--choose", action="store_true", help="let queries move to the strategy that costs less")
    parser.add_argument("--profile", action="store_true", help="print the functions of the engine's steps")


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(","))


def run(
    seconds: float,
    out: Path,
    scale: float = 0.1,
    queries: Sequence[int] = NUMBERS,
    transactions: int = 42,
    deadline: float = 120.0,
    profile: bool = False,
    choose: bool = False,
) -> list[Figures]:
    population, found = Population(scale), []
    with _console.status("starting PostgreSQL …") as status, loaded(population, status.update) as server:
        for n, number in enumerate(queries):
            status.update(f"Q{number}: {n + 1} of {len(queries)} …")
            words = [server.url(), str(scale), str(number), str(n * transactions), str(transactions)]
            figures = _followed([*words, "profile" if profile else "", "choose" if choose else ""], deadline)
            let_go(server)
            one = {"query": number, **figures, **_rerun(server.url(), query(number, scale).standard, deadline)}
            if is_dear(one) and not choose:
                one["chosen"] = _followed([*words, "", "choose"], deadline).get("strategy", "")
                let_go(server)
            found.append(one)
    _console.print(_table(found, scale))
    for line in remarks(found):
        _console.print(line, soft_wrap=True, highlight=False)
    (out / "tpch.json").write_text(json.dumps({"scale": scale, "load": os.getloadavg()[0], "queries": found}, indent=1))
    return found


def _followed(words: Sequence[str], deadline_s: float) -> Figures:
    """What the process said until its deadline."""
    command = [sys.executable, "-m", "bench.tpch.follow", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            said, _ = child.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            child.kill()
            said, _ = child.communicate()
            said += json.dumps({"check": f"stopped after {deadline_s:g} s"})
    known: Figures = {}
    for line in said.splitlines():
        known |= json.loads(line)
    return {"check": f"ended with code {child.returncode}"} | known


def _rerun(url: str, sql: str, deadline_s: float) -> Figures:
    """Medians, warm: the elapsed time with the rows fetched, and CPU of the server's process where the system tells."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"SET statement_timeout = {int(deadline_s * 1000)}".encode())
        try:
            runs = list(_runs(db, sql.encode()))
        except psycopg.errors.QueryCanceled:
            return {}
    walls_s, cpus_s = zip(*runs[1:] or runs, strict=True)
    return {"again_ms": statistics.median(walls_s) * 1000, "again_cpu_ms": statistics.median(cpus_s) * 1000}


def _runs(db: psycopg.Connection[Any], sql: bytes) -> Iterator[tuple[float, float]]:
    until_s = time.monotonic() + _RUNS_S
    for _ in range(_RUNS + 1):
        cpu_s, began_s = _cpu_s(db.info.backend_pid), time.monotonic()
        db.execute(sql).fetchall()
        yield time.monotonic() - began_s, _cpu_s(db.info.backend_pid) - cpu_s
        if time.monotonic() > until_s:
            return


def _cpu_s(pid: int) -> float:
    """So far, to the nanosecond; NaN where there is no such file."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return float("nan")


def _table(found: Sequence[Figures], scale: float) -> Grid:
    load = os.getloadavg()[0]
    grid = Grid(title=f"TPC-H at scale {scale:g}: a small transaction beside the query run again; load {load:.1f}")
    for heading in (*_WORDS, *_FIGURES.values(), "again ÷ engine", "again ÷ all", "result"):
        grid.add_column(heading, justify="right" if heading in _FIGURES.values() or "÷" in heading else "left")
    for one in found:
        grid.add_row(*_cells(one))
    return grid


def _cells(one: Figures) -> list[str]:
    """In CPU: again over the engine, and over the whole pipeline, though all live queries share what is not engine."""
    form = one.get("form", "")
    words = [
        f"Q{one['query']}",
        form,
        one.get("strategy") or (str(one["forms"].get(form, "")) if "forms" in one else ""),
        one.get("changes", ""),
    ]
    figures = [one.get(name, float("nan")) / (2**20 if name == "peak_bytes" else 1) for name in _FIGURES]
    ratios = [_ratio(one, one.get("engine_cpu_ms", 0.0)), _ratio(one, pipeline_cpu_ms(one))]
    return [*words, *map(_short, figures), *ratios, _cut(one["check"])]


def _ratio(one: Figures, cpu_ms: float) -> str:
    return f"{one.get('again_cpu_ms', float('nan')) / cpu_ms:.1f}×" if cpu_ms > 0 else ""


def pipeline_cpu_ms(one: Figures) -> float:
    """Of a transaction: capture, log, cell and hub."""
    return float(one.get("engine_cpu_ms", 0.0)) + float(one.get("other_cpu_ms", 0.0))


def is_dear(one: Figures) -> bool:
    """Whether it costs the whole pipeline more CPU than to ask again."""
    return bool(pipeline_cpu_ms(one) > one.get("again_cpu_ms", float("inf")))


def remarks(found: Sequence[Figures]) -> Iterator[str]:
    """Under the table: what is dearer than asking, and what is not followed as the standard writes it, and why."""
    by_engine = [one for one in found if one.get("engine_cpu_ms", 0.0) > one.get("again_cpu_ms", float("inf"))]
    yield f"dearer to follow than to ask again, by the engine's CPU: {_named(by_engine)}"
    dear = [one for one in found if is_dear(one)]
    yield f"dearer to follow than to ask again, by the CPU of the whole pipeline: {_named(dear)}"
    for one in dear:
        if one.get("chosen"):
            yield f"  Q{one['query']}, its strategy left open, ends as {one['chosen']}"
    for one in found:
        how = str(one.get("forms", {}).get("standard", "incremental"))
        if how != "incremental":
            yield f"Q{one['query']}: not as the standard writes it: {_why(how)}"


def _named(found: Sequence[Figures]) -> str:
    return ", ".join(f"Q{one['query']}" for one in found) or "none"


def _why(how: str) -> str:
    return how.splitlines()[0].removeprefix("refused: the query cannot be incremental, which is forced: ")


def _cut(said: str) -> str:
    """All of it is in the JSON."""
    line = said.splitlines()[0]
    return line if len(line) <= 60 else f"{line[:59]}…"


def _short(figure: float) -> str:
    return "" if figure != figure else f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
