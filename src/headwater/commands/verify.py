"""`headwater verify`: follows a query, and checks it against the database twice a second."""

from __future__ import annotations

import argparse
import json
import time

from headwater.commands.terminal import connected
from headwater.model.errors import Drift


def run(args: argparse.Namespace) -> int:
    with connected(args) as db:
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
