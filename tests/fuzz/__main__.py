"""`python -m tests.fuzz [--seconds N] [--seed S] [--checks N]`: random worlds until the time or the checks are up."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from tests.fuzz.campaign import Campaign, seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="random schemas, queries and transactions")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after so long (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first case; the next ones follow (0)")
    parser.add_argument(
        "--checks", type=int, default=None, help="stop after so many checks of a query at a transaction"
    )
    given = parser.parse_args()
    console, campaign = Console(), Campaign()
    end = time.monotonic() + given.seconds
    with console.status("fuzzing") as status:
        for seed in seeds(given.seed):
            if time.monotonic() > end or (given.checks is not None and campaign.total.checks >= given.checks):
                break
            status.update(f"seed {seed}: {campaign.summary()}")
            before = len(campaign.failures)
            campaign.run(seed)
            for path in campaign.failures[before:]:
                console.print(f"[red]seed {seed} failed:[/red] {path}")
    console.print(campaign.table())
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
