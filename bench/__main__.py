"""`./dev bench [NAME]`: runs one benchmark, or all of them, a table each."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = (
    "latency",
    "engine",
    "joins",
    "sizes",
    "activation",
    "audience",
    "load",
    "sharing",
    "demand",
    "partial",
    "neighbours",
    "page",
    "capture",
    "postgres",
    "tpch",
)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="all of them when left out")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each measurement lasts (default 30)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where plots and figures go")
    args, rest = parser.parse_known_args(words)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in [args.name] if args.name else NAMES:
        bench = importlib.import_module(f"bench.{name}")
        bench.run(args.seconds, args.out, **_own_options(name, bench, rest))


def _own_options(name: str, bench: Any, words: Sequence[str]) -> dict[str, Any]:
    """A benchmark that has options of its own has a function `options`, which adds them to a parser."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {name}", description=bench.__doc__)
    if hasattr(bench, "options"):
        bench.options(parser)
    return vars(parser.parse_args(words))


if __name__ == "__main__":
    main()
