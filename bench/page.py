"""`./dev bench page`: the page in real Chromium while its result changes hundreds of times a second.

Told is how long frames take, from one `requestAnimationFrame` to the next, and what is in the table in each of them:
never more rows than the result has, pictures of leaving rows included. At the end the table must say what the database
says.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Page, expect, sync_playwright
from rich.console import Console
from rich.table import Table

from bench import page_writer
from bench.gateway import gateway
from tests.support.missing import CHROMIUM

_RATES = (0.0, 400.0, 500.0)
_WARM_S = 3.0
_WAIT_MS = 60_000.0
_BAR_MS = 20.0
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WATCH = """() => {
  const [body, ghosts] = ["#result tbody", "#ghosts"].map((name) => document.querySelector(name));
  const counted = () => parseInt(document.querySelector("#facts").textContent);
  window.frames_seen = [];
  let last = null;
  const look = (now) => {
    if (last !== null) frames_seen.push([now - last, body.rows.length, ghosts.childElementCount, counted()]);
    last = now;
    window.frames_of = requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
_SEEN = "() => { cancelAnimationFrame(frames_of); return frames_seen; }"
_TABLE = """() => {
  const rows = [...document.querySelectorAll("#result tbody tr")];
  return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
}"""
_COLUMNS = ("tx/s", "written", "frames", "p50 ms", "p95 ms", "worst ms", "drawn", "ghosts", "rows", "end")
_console = Console()


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one rate. `rows_max` counts what is drawn in one frame, ghosts too; `result_max` the rows of the result."""

    rate: float
    written_per_s: float
    frames: int
    p50_ms: float
    p95_ms: float
    worst_ms: float
    rows_max: int
    ghosts_max: int
    result_max: int
    right_at_the_end: bool


def run(seconds: float, out: Path) -> None:
    seen = []
    for rate in _RATES:
        with _console.status(f"{rate:.0f} transactions/s …"):
            seen.append(_seen(rate, seconds))
    _print(seen)
    (out / "page.json").write_text(json.dumps([asdict(one) for one in seen], indent=1))


def _seen(rate: float, seconds: float) -> Seen:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "bench.db"
        page_writer.create(path)
        with gateway(path, Path(scratch) / "data") as served, _opened(served.url) as page:
            writer = page_writer.spawn(path, seconds + _WARM_S, rate) if rate else None
            time.sleep(_WARM_S)
            page.evaluate(_WATCH)
            page.wait_for_timeout(seconds * 1000)
            frames = np.array(page.evaluate(_SEEN))
            written = float(writer.communicate()[0]) if writer else 0.0
            return _figures(rate, written, frames, _ends_right(page, path))


@contextmanager
def _opened(socket: str) -> Iterator[Page]:
    """The page, with the query under way."""
    address = socket.replace("ws:", "http:").removesuffix("/v1/ws")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        page = browser.new_page()
        page.goto(f"{address}/#sql={quote(page_writer.QUERY)}")
        expect(page.locator("#status")).to_have_text("connected", timeout=_WAIT_MS)
        page.click("#run")
        expect(page.locator("#result tbody tr")).to_have_count(page_writer.SHOWN, timeout=_WAIT_MS)
        yield page
        browser.close()


def _ends_right(page: Page, path: Path) -> bool:
    """Whether the table comes to say what the database says."""
    db = sqlite3.connect(path)
    wanted = [[str(value) for value in row] for row in db.execute(page_writer.QUERY)]
    db.close()
    until = time.monotonic() + _WAIT_MS / 1000
    while not (right := page.evaluate(_TABLE) == wanted) and time.monotonic() < until:
        page.wait_for_timeout(100)
    return bool(right)


def _figures(rate: float, written: float, frames: Any, right: bool) -> Seen:
    took, rows, ghosts, result = frames.T
    p50, p95 = np.percentile(took, (50, 95))
    drawn, left, live = (int(count.max()) for count in (rows + ghosts, ghosts, result))
    return Seen(rate, written, len(took), float(p50), float(p95), float(took.max()), drawn, left, live, right)


def _print(seen: list[Seen]) -> None:
    table = Table(title="the page's table under fast traffic")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for one in seen:
        spans = (f"{ms:.1f}" for ms in (one.p50_ms, one.p95_ms, one.worst_ms))
        counts = (str(count) for count in (one.rows_max, one.ghosts_max, one.result_max))
        end = "right" if one.right_at_the_end else "WRONG"
        table.add_row(f"{one.rate:.0f}", f"{one.written_per_s:.0f}", str(one.frames), *spans, *counts, end)
    _console.print(table)
    _console.print(f"worst p50: {max(one.p50_ms for one in seen):.1f} ms (bar: at most {_BAR_MS:.0f})")
