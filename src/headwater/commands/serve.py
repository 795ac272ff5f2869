"""`headwater serve` and `headwater demo`: a gateway on a database, or on a generated shop with traffic."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import socket
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from starlette.applications import Starlette

from headwater.commands.terminal import err
from headwater.demo.examples import EXAMPLES
from headwater.demo.routes import demo_routes
from headwater.demo.shop_file import create_shop
from headwater.demo.traffic import Traffic
from headwater.fs.temporary_directory import make_scratch, remove_scratch
from headwater.gateway.server import Server
from headwater.gateway.web.app import make_app
from headwater.gateway.web.origins import Allowed
from headwater.gateway.web.serve import address, listen, serve
from headwater.model.limits import DEFAULT
from headwater.pipeline.data_dir.grid import Grid
from headwater.sources import must_exist, shown


def run(args: argparse.Namespace) -> int:
    must_exist(args.source)
    allowed = Allowed.of(args.allow_host, args.allow_origin)
    with listen(args.host, args.port) as bound:
        server = _opened(args, args.source, args.data_dir)
        _serve_app(server, make_app(server, allowed=allowed), bound)
    return 0


def run_demo(args: argparse.Namespace) -> int:
    allowed = Allowed.of(args.allow_host, args.allow_origin)
    with _demo_directory() as scratch, listen(args.host, args.port) as bound:
        shop = scratch / "shop.db"
        with err.status("making a shop: customers, products, orders …"):
            create_shop(shop, now=dt.datetime.now())
        server = _opened(args, f"sqlite:///{shop}", args.data_dir or scratch / "data")
        with Traffic(shop) as traffic:
            routes = demo_routes(traffic, [asdict(example) for example in EXAMPLES])
            _serve_app(server, make_app(server, routes, allowed), bound)
    return 0


def _serve_app(server: Server, app: Starlette, bound: socket.socket) -> None:
    serve(app, bound, server.pipeline.limits, on_started=lambda: _announce(address(bound), server))


def _opened(args: argparse.Namespace, source: str, data_dir: Path | None) -> Server:
    with err.status(f"starting the pipeline ({args.runner}) on {shown(source)} …"):
        return Server(
            source,
            runner=args.runner,
            master=args.master,
            data_dir=data_dir,
            grid=Grid.parse(args.cells),
            epoch_s=args.epoch,
            limits=DEFAULT if args.by_key_rows is None else replace(DEFAULT, partial_rows_min=args.by_key_rows),
        ).start()


@contextlib.contextmanager
def _demo_directory() -> Iterator[Path]:
    path = make_scratch("demo")
    try:
        yield path
    finally:
        remove_scratch(path)


def _announce(url: str, server: Server) -> None:
    err.print(f"runner: [bold]{server.pipeline.runner.name}[/]  source: {server.url}")
    print(f"Headwater is live at {url}", flush=True)
