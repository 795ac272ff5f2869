"""`headwater explain`: how a query would be kept current, and why."""

from __future__ import annotations

import argparse
import json

from headwater.commands.terminal import connected, is_gateway


def run(args: argparse.Namespace) -> int:
    text = _at_gateway(args) if is_gateway(args.source) else _at_source(args)
    print(json.dumps({"text": text}) if args.json else text)
    return 0


def _at_gateway(args: argparse.Namespace) -> str:
    with connected(args) as db:
        return db.explain(args.sql, *args.param, analyze=args.analyze)


def _at_source(args: argparse.Namespace) -> str:
    """It only reads the schema: a server may run on the same file."""
    from headwater.gateway.explain import explain_at
    from headwater.sources import must_exist

    must_exist(args.source)
    return explain_at(args.source, args.sql, args.param, args.analyze)
