"""What the commands share: standard error with colours, and a database opened as the options say."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

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


@contextlib.contextmanager
def until_terminated() -> Iterator[None]:
    """SIGTERM ends the block as an exception does, so that nothing of it is left in the database."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_gateway(url: str) -> bool:
    return url.startswith(("ws://", "wss://"))
