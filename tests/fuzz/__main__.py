"""`python -m tests.fuzz [--postgres] [--seconds N] [--seed S] [--checks N]`: random worlds until the time or the checks
are up, against SQLite or against real PostgreSQL servers."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console

from tests.fuzz.campaign import Campaign, seeds
from tests.fuzz.postgres.campaign import PostgresCampaign
from tests.support.postgres import VERSIONS, Servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="random schemas, queries and transactions")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after so long (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first case; the next ones follow (0)")
    parser.add_argument(
        "--checks", type=int, default=None, help="stop after so many checks of a query at a transaction"
    )
    parser.add_argument("--postgres", action="store_true", help="in PostgreSQL's dialect, on servers of its own")
    given = parser.parse_args()
    with campaigning(given.postgres) as campaign:
        return run(campaign, given)


@contextlib.contextmanager
def campaigning(postgres: bool) -> Iterator[Campaign]:
    if not postgres:
        yield Campaign(demand_every=3)
        return
    servers = Servers()
    try:
        yield PostgresCampaign(servers=[servers[version] for version in VERSIONS])
    finally:
        servers.close()


def run(campaign: Campaign, given: argparse.Namespace) -> int:
    console = Console()
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
