"""`./dev bench [NAME]`: runs one benchmark, or all of them, a table each."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

NAMES = ("latency", "engine", "sizes", "activation", "audience", "neighbours", "capture", "postgres")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="all of them when left out")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each measurement lasts (default 30)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where plots and figures go")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in [args.name] if args.name else NAMES:
        importlib.import_module(f"bench.{name}").run(args.seconds, args.out)


if __name__ == "__main__":
    main()
