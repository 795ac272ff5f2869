"""A writer process for benchmarks on PostgreSQL: small commits at a steady rate, each with the time just before it.

It prints how long its own commits took, one a line, in seconds. `time.monotonic` is one clock for all processes of a
machine, so a reader can subtract.
"""

from __future__ import annotations

import subprocess
import sys
import time

import psycopg

PROBES = 10  # as many as pgbench has tellers at scale 1
CREATE = f"""
CREATE TABLE probes (tid int PRIMARY KEY, committing float8 NOT NULL);
INSERT INTO probes SELECT n, 0 FROM generate_series(1, {PROBES}) n;
"""
_UPDATE = "UPDATE probes SET committing = %s WHERE tid = %s"


def spawn(url: str, seconds: float, rate: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.probing", url, str(seconds), str(rate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _write(url: str, seconds: float, rate: float) -> list[float]:
    took_s: list[float] = []
    start_s = time.monotonic()
    with psycopg.connect(url, autocommit=True) as db:
        while (now_s := time.monotonic()) - start_s < seconds:
            ahead_s = start_s + len(took_s) / rate - now_s
            time.sleep(max(0.0, ahead_s))
            before_s = time.monotonic()
            db.execute(_UPDATE, (before_s, 1 + len(took_s) % PROBES))
            took_s.append(time.monotonic() - before_s)
    return took_s


if __name__ == "__main__":
    print(*_write(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])), sep="\n")
