"""`./dev profile SCENARIO`: the functions that a step spends its time in, as a table; with --flame as a flame graph."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from bench.profile.flame_graph import sampled, write_speedscope
from bench.profile.functions import HotFunction, hot_functions
from bench.profile.scenarios import NAMES, prepared

_WARM_STEPS = 3


def main(words: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(words)
    with prepared(args.scenario, args.rows, args.changes) as prepare:
        for _ in range(_WARM_STEPS):
            prepare()()
        found = hot_functions(prepare, args.steps, args.sort)
        if args.flame is not None:
            samples = sampled(prepare, args.steps)
            write_speedscope(samples, f"headwater {args.scenario}", args.flame)
    console = Console(width=None if Console().is_terminal else 130, highlight=False)
    console.print(_table(found, args))
    if args.flame is not None:
        console.print(
            f"{args.flame}: {len(samples.stacks)} samples; open it with https://speedscope.app", soft_wrap=True
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev profile", description=__doc__)
    parser.add_argument("scenario", choices=NAMES, help="a step of the engine; sqlite: from a commit to the client")
    parser.add_argument("--rows", type=int, default=20_000, help="orders that there are (default 20,000)")
    parser.add_argument("--changes", type=int, default=100, help="of one step (default 100)")
    parser.add_argument("--steps", type=int, default=50, help="that are profiled (default 50)")
    parser.add_argument("--top", type=int, default=25, help="functions in the table (default 25)")
    parser.add_argument("--sort", choices=("own", "total"), default="own", help="by own time, or with callees")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="write a flame graph for https://speedscope.app")
    return parser


def _table(found: Sequence[HotFunction], args: argparse.Namespace) -> Grid:
    whole_ms = sum(one.own_ms for one in found)
    title = f"{args.scenario}: {whole_ms:,.2f} ms a step of {args.changes} changes, as cProfile counts it"
    grid = Grid(title=title, title_justify="left")
    for heading in ("own ms", "own %", "total ms", "calls", "function", "where"):
        grid.add_column(heading, justify="left" if heading in ("function", "where") else "right", overflow="fold")
    for one in found[: args.top]:
        share = f"{one.own_ms / whole_ms:.1%}"
        grid.add_row(f"{one.own_ms:.3f}", share, f"{one.total_ms:.3f}", f"{one.calls:,.1f}", one.name, one.place)
    return grid


if __name__ == "__main__":
    main()
