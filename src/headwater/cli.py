"""The command line: parses, opens, prints. It holds no logic of its own."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import logging
import math
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text
from starlette.applications import Starlette

from headwater.client.connecting import connect
from headwater.client.database import Database
from headwater.client.live import LiveResult
from headwater.gateway.app import make_app
from headwater.gateway.explaining import explain_at
from headwater.gateway.origins import Allowed
from headwater.gateway.server import Server
from headwater.gateway.serving import address, listen, serve
from headwater.model.errors import Drift, HeadwaterError
from headwater.model.value import Value
from headwater.pipeline.grid import Grid
from headwater.scratch import make_scratch, remove_scratch
from headwater.sources import open_doctor, open_source, shown
from headwater.sources.doctor import Finding, Mended, Scope, State, is_well, mend_all

N = TypeVar("N", int, float)
_err = Console(stderr=True, highlight=False)
_DATABASE = "sqlite:///file.db or postgresql://host/database"
_SOURCES = f"{_DATABASE}; watch and explain take ws://host:port too"
_PARAM = "a value for the next parameter: ? on SQLite, $1, $2, … on PostgreSQL (repeat)"
_ALLOW_HOST = "another name that clients reach this server by, such as a proxy's (repeat); default: loopback names only"
_ALLOW_ORIGIN = (
    "web pages of this origin may connect too, such as https://app.example.org (repeat); default: our own only"
)
_EXAMPLES = """examples:
  headwater demo
  headwater serve --source sqlite:///shop.db --port 8080
  headwater watch "SELECT id, total FROM orders ORDER BY total DESC LIMIT 10" --source sqlite:///shop.db
  headwater watch "SELECT * FROM orders WHERE status = 'open'" --source ws://127.0.0.1:8080
  headwater explain "SELECT id FROM orders WHERE customer_id = 42" --source sqlite:///shop.db
  headwater doctor postgresql://me@db.example.org/shop
  headwater detach --source sqlite:///shop.db
"""
_DOCTOR = """Looks at a database and tells whether live queries will work on it: what is needed, what was found, and the
exact statement that makes up for the difference. It changes nothing, unless you say --fix.

  ok     nothing to do
  note   works; here is what to know, or what would be better
  bad    something will be refused, or is lost: the statement beneath mends it

With --fix every statement is run that needs no decision of yours: settings of the server, rights, replica identities,
slots whose changes are gone. What is marked (by hand) is never run for you. PostgreSQL lets a role do only what it may:
to mend as an administrator what Headwater's own role lacks, name that role with --role. With --table only
those tables are looked at, and mended, that are to be live.
"""
_DOCTOR_EXAMPLES = """examples:
  headwater doctor postgresql://live@db.example.org/shop                          look
  headwater doctor postgresql://admin@db.example.org/shop --role live --fix       mend, and look again
  headwater doctor postgresql://live@db.example.org/shop --table orders           one table of many
  headwater doctor sqlite:///shop.db --json                                       for programs

exit code: 0 when nothing is bad, 1 otherwise
"""
_NAME_WIDTH = 26  # of the doctor's table: names up to here stay in one piece
_COLOURS = {State.FINE: "green", State.NOTE: "yellow", State.BAD: "bold red"}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0, 1 failed, 2 usage."""
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="headwater: %(message)s")
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except HeadwaterError as error:
        _err.print(Text.assemble((error.code, "bold red"), f": {error}"), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headwater",
        description="Live SQL on the database you already have: subscribe to a SELECT, get every change to its result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser("demo", help="a generated shop with traffic, and a live page to watch it on")
    _server_options(demo, source=False)
    demo.set_defaults(run=_demo)
    server = commands.add_parser("serve", help="serve live queries on a database: WebSocket and a console page")
    _server_options(server, source=True)
    server.set_defaults(run=_serve)
    for name, run, help in (
        ("watch", _watch, "a table in the terminal that stays current"),
        ("explain", _explain, "how a query would be kept current, and why"),
        ("verify", _verify, "follow a query and check it against the database"),
    ):
        command = commands.add_parser(name, help=help)
        command.add_argument("sql", metavar="SELECT", help="the query, in quotes")
        command.add_argument("--param", action="append", default=[], help=_PARAM)
        command.add_argument("--json", action="store_true", help="for pipes: one JSON document a line")
        _source_options(command)
        command.set_defaults(run=run)
        if run is _explain:
            command.add_argument("--analyze", action="store_true", help="run it once: rows and work of each operator")
        else:
            ends = "stop after so many changes" if run is _watch else "stop after so many checks"
            command.add_argument("--count", type=_number, default=0, metavar="N", help=f"{ends} (default 0: never)")
    doctor = commands.add_parser(
        "doctor",
        help="what a database needs to be live, what it has, and the statements that fix it",
        description=_DOCTOR,
        epilog=_DOCTOR_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("url", metavar="URL", help=_DATABASE)
    doctor.add_argument("--fix", action="store_true", help="run the statements that need no decision of yours")
    doctor.add_argument("--table", action="append", default=[], help="only this table (repeat); default: all of them")
    doctor.add_argument("--role", help="PostgreSQL: the role Headwater connects as, where the address names another")
    doctor.add_argument("--json", action="store_true", help="for programs: one JSON document a finding")
    doctor.set_defaults(run=_doctor)
    detach = commands.add_parser("detach", help="take out of a database what we put into it")
    detach.add_argument("--source", required=True, metavar="URL", help=_DATABASE)
    detach.add_argument("--json", action="store_true", help="for programs: a JSON list of what was removed")
    detach.set_defaults(run=_detach)
    return parser


def _server_options(parser: argparse.ArgumentParser, *, source: bool) -> None:
    if source:
        _source_options(parser)
    else:
        _runner_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="loopback only, for now")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=_ALLOW_HOST)
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=_ALLOW_ORIGIN)
    parser.add_argument("--port", type=_port, default=8080, help="0 takes a free one (default 8080)")


def _source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, metavar="URL", help=_SOURCES)
    _runner_options(parser)


def _runner_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runner", choices=("spark", "inline"), default="spark", help="where the pipeline runs (default spark)"
    )
    parser.add_argument("--master", help="a Spark master (default: local, with a slot per cell and four more)")
    parser.add_argument(
        "--cells", default="1x1", metavar="QxW", help="query partitions x write partitions (default 1x1)"
    )
    parser.add_argument(
        "--epoch", type=_seconds, default=60.0, metavar="S", help="seconds an epoch lasts (default 60; 0: micro-batch)"
    )
    parser.add_argument("--data-dir", type=Path, help="where the log and the state live")


def _number(text: str) -> int:
    return _within(int(text), math.inf)


def _port(text: str) -> int:
    return _within(int(text), 65535)


def _seconds(text: str) -> float:
    return _within(float(text), math.inf)


def _within(number: N, most: float) -> N:
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0{f' to {most}' if most < math.inf else ''}, found {number}"
        )
    return number


def _opened(args: argparse.Namespace, source: str, data_dir: Path | None) -> Server:
    with _err.status(f"starting the pipeline ({args.runner}) on {shown(source)} …"):
        return Server(
            source,
            runner=args.runner,
            master=args.master,
            data_dir=data_dir,
            grid=Grid.parse(args.cells),
            epoch_s=args.epoch,
        ).start()


def _serve(args: argparse.Namespace) -> int:
    allowed = Allowed.of(args.allow_host, args.allow_origin)
    with listen(args.host, args.port) as bound:
        server = _opened(args, args.source, args.data_dir)
        _serve_app(server, make_app(server, allowed=allowed), bound)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from headwater.demo import EXAMPLES, Traffic, create_shop
    from headwater.gateway.demo_routes import demo_routes

    allowed = Allowed.of(args.allow_host, args.allow_origin)
    with _demo_directory() as scratch, listen(args.host, args.port) as bound:
        shop = scratch / "shop.db"
        with _err.status("making a shop: customers, products, orders …"):
            create_shop(shop, now=dt.datetime.now())
        server = _opened(args, f"sqlite:///{shop}", args.data_dir or scratch / "data")
        with Traffic(shop) as traffic:
            routes = demo_routes(traffic, [asdict(example) for example in EXAMPLES])
            _serve_app(server, make_app(server, routes, allowed), bound)
    return 0


def _serve_app(server: Server, app: Starlette, bound: socket.socket) -> None:
    serve(app, bound, server.pipeline.limits, on_started=lambda: _announce(address(bound), server))


@contextlib.contextmanager
def _demo_directory() -> Iterator[Path]:
    path = make_scratch("demo")
    try:
        yield path
    finally:
        remove_scratch(path)


def _announce(url: str, server: Server) -> None:
    _err.print(f"runner: [bold]{server.pipeline.runner.name}[/]  source: {server.url}")
    print(f"Headwater is live at {url}", flush=True)


def _watch(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as opened:
        with _err.status(f"connecting to {shown(args.source)} …") as said:
            db = opened.enter_context(_connected(args))
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
    with Live(_drawn(live, before), auto_refresh=False, screen=False) as screen:
        while not count or seen < count:
            changed = live.wait(timeout=1.0)
            if changed or live.state != state:
                screen.update(_drawn(live, before), refresh=True)
                before = dict(zip(live.hashes, map(dict, live.rows), strict=True))
                seen, state = seen + changed, live.state
    return 0


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


def _explain(args: argparse.Namespace) -> int:
    """Beside a running server too: it only looks at the schema."""
    if args.source.startswith(("ws://", "wss://")):
        with _connected(args) as db:
            text = db.explain(args.sql, *args.param, analyze=args.analyze)
    else:
        text = explain_at(args.source, args.sql, args.param, args.analyze)
    print(json.dumps({"text": text}) if args.json else text)
    return 0


def _verify(args: argparse.Namespace) -> int:
    with _connected(args) as db:
        live = db.query(args.sql, *args.param, live=True)
        checks = 0
        while not args.count or checks < args.count:
            try:
                db.verify(live)
            except Drift as drift:
                print(json.dumps({"ok": False, "drift": drift.message}) if args.json else f"DRIFT: {drift}")
                return 1
            checks += 1
            said = {"ok": True, "checks": checks, "position": live.position, "rows": len(live.rows)}
            print(
                json.dumps(said) if args.json else f"ok at position {live.position}: {len(live.rows)} rows", flush=True
            )
            time.sleep(0.5)
    return 0


def _doctor(args: argparse.Namespace) -> int:
    doctor = open_doctor(args.url, Scope(args.role, tuple(args.table)))
    try:
        for mended in mend_all(doctor) if args.fix else ():
            _err.print(_outcome(mended), soft_wrap=True)
        findings = doctor.examine()
    finally:
        doctor.close()
    if args.json:
        for finding in findings:
            print(json.dumps({**asdict(finding), "state": finding.state.value}))
    else:
        Console(highlight=False).print(_examined(findings))
    return 0 if is_well(findings) else 1


def _outcome(mended: Mended) -> Text:
    finding, refused = mended.finding, mended.refused
    if refused is not None:
        return Text.assemble(("refused", "bold red"), f": {finding.fix}\n  {refused}")
    return Text.assemble(("done", "green"), f": {finding.fix}", f"; then {finding.then}" if finding.then else "")


def _examined(findings: Sequence[Finding]) -> RichTable:
    table = RichTable(show_lines=True)
    longest = max(len(word) for one in findings for word in one.subject.split())
    for title in ("", "what", "needed", "found", "fix"):
        table.add_column(title, overflow="fold", min_width=min(longest, _NAME_WIDTH) if title == "what" else None)
    for one in findings:
        state = Text(one.state.value, _COLOURS[one.state])
        table.add_row(state, Text(one.subject), Text(one.needed), Text(one.found), Text(_advice(one)))
    return table


def _advice(finding: Finding) -> str:
    """The statement as it can be copied, then what else there is to do."""
    by_hand = "(by hand)" if finding.fix and finding.by_hand else ""
    return "\n".join(
        part for part in (finding.fix and f"{finding.fix};".replace(";;", ";"), finding.then, by_hand) if part
    )


def _detach(args: argparse.Namespace) -> int:
    source = open_source(args.source)
    try:
        removed = source.detach()
    finally:
        source.close()
    print(json.dumps(removed) if args.json else "\n".join(f"removed {name}" for name in removed) or "nothing to remove")
    return 0


def _connected(args: argparse.Namespace) -> Database:
    return connect(
        args.source,
        runner=args.runner,
        master=args.master,
        data_dir=args.data_dir,
        cells=args.cells,
        epoch_s=args.epoch,
    )


if __name__ == "__main__":
    sys.exit(main())
