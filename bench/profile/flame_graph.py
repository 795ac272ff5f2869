"""A flame graph of steps: the stack, sampled as CPU time passes, as a file that https://speedscope.app shows.

Sampling distorts less than counting calls does: a function that is called often is not made to look slow.
"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bench.profile.functions import place_of
from bench.profile.scenarios import Prepare

_INTERVAL_S = 0.001  # asked for; many systems look every 4 ms
Stack = tuple[tuple[str, str, int], ...]  # name, file and first line of each function, the outermost first


@dataclass(slots=True)
class Samples:
    """Stacks that are `interval_ms` of CPU time apart."""

    stacks: list[Stack] = field(default_factory=list)
    interval_ms: float = 0.0


def sampled(prepare: Prepare, steps: int) -> Samples:
    """In the main thread: signals come to that one alone."""
    samples, spent_s = Samples(), 0.0

    def sample(number: int, frame: FrameType | None) -> None:
        samples.stacks.append(_stack(frame))

    before = signal.signal(signal.SIGPROF, sample)
    try:
        for _ in range(steps):
            step, began_s = prepare(), time.process_time()
            signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)
            step()
            signal.setitimer(signal.ITIMER_PROF, 0)
            spent_s += time.process_time() - began_s
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    samples.interval_ms = spent_s * 1000 / max(1, len(samples.stacks))
    return samples


def _stack(frame: FrameType | None) -> Stack:
    found: list[tuple[str, str, int]] = []
    while frame is not None:
        code = frame.f_code
        found.append((code.co_qualname, code.co_filename, code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(found))


def write_speedscope(samples: Samples, name: str, path: Path) -> None:
    stacks, each_ms = samples.stacks, samples.interval_ms
    frames = {one: number for number, one in enumerate(dict.fromkeys(one for stack in stacks for one in stack))}
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "milliseconds",
        "startValue": 0,
        "endValue": len(stacks) * each_ms,
        "samples": [[frames[one] for one in stack] for stack in stacks],
        "weights": [each_ms] * len(stacks),
    }
    shared = [{"name": name, "file": place_of(file, line), "line": line} for name, file, line in frames]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "shared": {"frames": shared},
        "profiles": [profile],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
