"""Which functions a step spends its time in: counted by cProfile, called by their places in our tree."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.profile.scenarios import Prepare

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class HotFunction:
    """Of one step: `own_ms` without what it calls, `total_ms` with it."""

    place: str
    name: str
    calls: float
    own_ms: float
    total_ms: float


def hot_functions(prepare: Prepare, steps: int, order: str) -> list[HotFunction]:
    """The hottest first, by `own` or `total` time."""
    profile = cProfile.Profile()
    for _ in range(steps):
        step = prepare()
        profile.enable()
        step()
        profile.disable()
    found = list(_functions(pstats.Stats(profile), steps))
    return sorted(found, key=lambda one: one.own_ms if order == "own" else one.total_ms, reverse=True)


def _functions(stats: pstats.Stats, steps: int) -> Iterable[HotFunction]:
    every: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    for (file, line, name), (_, calls, own_s, total_s, _) in every.items():
        yield HotFunction(place_of(file, line), name, calls / steps, own_s * 1000 / steps, total_s * 1000 / steps)


def place_of(file: str, line: int) -> str:
    """Within our tree, within a package, or nowhere: a function in C has no line."""
    if file == "~":
        return ""
    path = Path(file)
    if path.is_relative_to(_ROOT / "src"):
        return f"{path.relative_to(_ROOT / 'src')}:{line}"
    if path.is_relative_to(_ROOT) and ".venv" not in path.parts:
        return f"{path.relative_to(_ROOT)}:{line}"
    return f"{'/'.join(path.parts[-2:])}:{line}"
