"""EventReduce and TanStack DB beside us: the same rows and events, in Node, in the same run.

Their packages come from npm at the first run, or by `python -m bench.javascript_peers`, at the versions in
`javascript/package.json`. Where there is no Node, or npm cannot fetch them, there are no figures, and the reason is
told.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = {"event_reduce": "EventReduce", "tanstack": "TanStack DB"}
_CODE = Path(__file__).with_name("javascript")
_CACHE = Path(__file__).parents[1] / ".cache" / "javascript"
_INSTALL_S, _PLAY_S = 180.0, 300.0
_INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]


@dataclass(slots=True)
class Tape:
    """The rows before the first event, and of each scenario its steps, with the ids within the limit after them."""

    limit: int
    rows: list[list[int]]
    scenarios: list[dict[str, Any]] = field(default_factory=list)
    steps: list[list[list[int]]] = field(default_factory=list)

    def step(self, events: Sequence[tuple[int, tuple[int, int, int] | None]]) -> None:
        self.steps.append([[id, *(new or ())] for id, new in events])

    def cut(self, expected: list[int]) -> None:
        """A scenario is over."""
        self.scenarios.append({"steps": self.steps, "expected": expected})
        self.steps = []


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """Of one scenario; `equal`: its result at the end is the right one."""

    event_ms: float
    asked_again: float
    equal: bool


def measured(tape: Tape) -> tuple[dict[str, list[PeerFigures]], str]:
    """Of each peer its scenarios; or the reason why there are none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return {}, "no Node with npm on this machine"
    try:
        install()
        said = _play(tape)
    except (subprocess.SubprocessError, OSError) as error:
        return {}, f"{error}: {getattr(error, 'stderr', None) or ''}".strip()
    return {name: [PeerFigures(**one) for one in json.loads(said)[name]] for name in PEERS}, ""


def is_installed() -> bool:
    """The packages of this version of the list are here, and Node to run them."""
    here = _CACHE / "package.json"
    is_same = here.exists() and here.read_text() == (_CODE / "package.json").read_text()
    return is_same and (_CACHE / "installed").exists() and shutil.which("node") is not None


def install() -> None:
    """Once for each version of the list."""
    if not is_installed():
        shutil.rmtree(_CACHE, ignore_errors=True)
        _CACHE.mkdir(parents=True)
        shutil.copy(_CODE / "package.json", _CACHE)
        subprocess.run(_INSTALL, cwd=_CACHE, check=True, timeout=_INSTALL_S, capture_output=True, text=True)
        (_CACHE / "installed").touch()


def _play(tape: Tape) -> str:
    """Node looks for packages beside the code, so the code goes where they are."""
    with tempfile.TemporaryDirectory() as scratch:
        recorded = Path(scratch) / "tape.json"
        recorded.write_text(json.dumps({"limit": tape.limit, "rows": tape.rows, "scenarios": tape.scenarios}))
        code = shutil.copy(_CODE / "pocket.mjs", _CACHE)
        command = ["node", code, str(recorded)]
        done = subprocess.run(command, check=True, timeout=_PLAY_S, capture_output=True, text=True)
        return done.stdout


if __name__ == "__main__":
    install()
