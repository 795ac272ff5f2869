"""`headwater detach`: takes out of a database what we put into it."""

from __future__ import annotations

import argparse
import json

from headwater.sources import must_exist, open_source


def run(args: argparse.Namespace) -> int:
    must_exist(args.source)
    source = open_source(args.source)
    try:
        removed = source.detach()
    finally:
        source.close()
    print(json.dumps(removed) if args.json else "\n".join(f"removed {name}" for name in removed) or "nothing to remove")
    return 0
