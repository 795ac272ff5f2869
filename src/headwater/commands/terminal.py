"""What the commands share: standard error with colours, and a database opened as the options say."""

from __future__ import annotations

import argparse

from rich.console import Console

from headwater.client.connect import connect
from headwater.client.database import Database

err = Console(stderr=True, highlight=False)


def connected(args: argparse.Namespace) -> Database:
    if not is_gateway(args.source):
        from headwater.sources import must_exist

        must_exist(args.source)
    return connect(
        args.source,
        runner=args.runner,
        master=args.master,
        data_dir=args.data_dir,
        cells=args.cells,
        epoch_s=args.epoch,
        ephemeral=True,
    )


def is_gateway(url: str) -> bool:
    return url.startswith(("ws://", "wss://"))
