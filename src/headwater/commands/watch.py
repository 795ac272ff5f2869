"""`headwater watch`: a table in the terminal that stays current, or a JSON document per change."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from headwater.client.live import LiveResult
from headwater.commands.terminal import connected, err, until_terminated
from headwater.model.addresses import shown
from headwater.model.errors import HeadwaterError
from headwater.model.union import Value


def run(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as opened:
        opened.enter_context(until_terminated())
        with err.status(f"connecting to {shown(args.source)} …") as said:
            db = opened.enter_context(connected(args))
            said.update("reading the tables of the query, the first time …")
            live = db.query(args.sql, *args.param, live=True)
        return _watch_json(live, args.count) if args.json else _watch_table(live, args.count)


def _watch_json(live: LiveResult, count: int) -> int:
    print(json.dumps({"seq": live.seq, "rows": list(live.rows)}, default=str), flush=True)
    for seen, _ in enumerate(live.events(), 1):
        print(json.dumps({"seq": live.seq, "rows": list(live.rows)}, default=str), flush=True)
        if seen == count:
            break
    if live.state == "closed":
        raise HeadwaterError(f"the live query is closed: {live.reason}")
    return 0


def _watch_table(live: LiveResult, count: int) -> int:
    seen, state = 0, live.state
    before: dict[str, dict[str, object]] = {}
    with _screen(_drawn(live, before)) as draw:
        while not count or seen < count:
            changed = live.wait(timeout=1.0)
            if changed or live.state != state:
                draw(_drawn(live, before))
                before = dict(zip(live.hashes, map(dict, live.rows), strict=True))
                seen, state = seen + changed, live.state
    return 0


@contextlib.contextmanager
def _screen(first: Group) -> Iterator[Callable[[Group], None]]:
    """Draws over what it drew before; into a file or a pipe, one after the other."""
    out = Console()
    if not out.is_terminal:
        out.print(first)
        yield out.print
        return
    with Live(first, console=out, auto_refresh=False, screen=False) as screen:
        yield partial(screen.update, refresh=True)


def _drawn(live: LiveResult, before: dict[str, dict[str, object]]) -> Group:
    """The rows, and where they stand; what changed since the last drawing is bold."""
    shown = live.snapshot
    table = RichTable()
    for column in live.columns:
        is_number = all(isinstance(row[column], int | float | Decimal | None) for row in shown.rows)
        table.add_column(Text(column), justify="right" if is_number else "left")
    for hash, row in zip(shown.hashes, shown.rows, strict=True):
        old = before.get(hash, {}) if before else row
        table.add_row(*(_cell(value, old.get(name, ...) != value) for name, value in row.items()))
    count = f"{len(shown.rows)} row{'' if len(shown.rows) == 1 else 's'}"
    why = f": {live.reason}" if live.reason else ""
    return Group(table, Text(f"seq {shown.seq} · {count} · {live.state}{why}", "dim"))


def _cell(value: Value, changed: bool) -> Text:
    return Text("" if value is None else str(value), "bold green" if changed else "")
