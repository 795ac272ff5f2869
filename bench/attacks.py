"""`python -m bench.attacks URL NAME SECONDS`: a client that asks for much, in a process of its own.

Says `begun` when it is let in. It goes on for so long whatever it is told, then prints how many of its subscriptions
were answered and how many were refused.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect

_COLUMNS, _SUBSCRIBES, _TEMPLATES = 1_900, 15_000, 300
_ENDLESS = """
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)
SELECT count(*) AS {name} FROM r, orders WHERE n + amount < 0
"""
_EIGHT = ", ".join(f"orders {name}" for name in "abcdefgh")
_SETTLED = ("ready", "error", "closed")


@dataclass(frozen=True, slots=True)
class Attack:
    """What it asks for; so many at once, the next when one of them is answered."""

    queries: Iterable[tuple[str, list[int]]]
    at_once: int


def _wide() -> Iterator[tuple[str, list[int]]]:
    for start in itertools.count():
        yield f"SELECT id, {', '.join(f'amount + {start + n} AS c{n}' for n in range(_COLUMNS))} FROM orders", []


ATTACKS = {
    "a SELECT of 1,900 columns, again and again": Attack(_wide(), 1),
    "15,000 subscribes": Attack(
        (("SELECT id, amount FROM orders WHERE amount = ?", [n]) for n in range(_SUBSCRIBES)), _SUBSCRIBES
    ),
    "300 templates with window functions": Attack(
        ((f"SELECT id, sum(amount) OVER (ORDER BY id) AS s{n} FROM orders", []) for n in range(_TEMPLATES)), _TEMPLATES
    ),
    "an endless recursive CTE": Attack(((_ENDLESS.format(name=f"c{n}"), []) for n in range(8)), 8),
    "a product of three tables": Attack(
        ((f"SELECT count(*) AS c{n} FROM orders a, orders b, orders c", []) for n in range(8)), 1
    ),
    "a product of eight tables": Attack(((f"SELECT count(*) AS c{n} FROM {_EIGHT}", []) for n in range(8)), 1),
    "texts of a billion characters": Attack(
        ((f"SELECT id, length(printf('%1000000000d', amount)) AS c{n} FROM orders", []) for n in range(8)), 1
    ),
}


def spawn(url: str, name: str, seconds: float) -> subprocess.Popen[str]:
    """Begun already."""
    command = [sys.executable, "-m", "bench.attacks", url, name, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def _attack(url: str, attack: Attack, seconds: float) -> Counter[str]:
    told: Counter[str] = Counter()
    async with connect(url, max_size=None, open_timeout=120, ping_interval=None, compression=None) as socket:
        await socket.send('{"type": "hello"}')
        await socket.recv()
        print("begun", flush=True)
        turns = asyncio.Semaphore(attack.at_once)
        asking = asyncio.create_task(_ask(socket, attack, turns))
        try:
            async with asyncio.timeout(seconds):
                async for message in socket:
                    kind = json.loads(message)["type"]
                    if kind in _SETTLED:
                        told[kind] += 1
                        turns.release()
        except TimeoutError:
            asking.cancel()
    return told


async def _ask(socket: ClientConnection, attack: Attack, turns: asyncio.Semaphore) -> None:
    for number, (sql, params) in enumerate(attack.queries):
        await turns.acquire()
        await socket.send(json.dumps({"type": "subscribe", "id": f"{number}", "sql": sql, "params": params}))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_attack(sys.argv[1], ATTACKS[sys.argv[2]], float(sys.argv[3])))))
