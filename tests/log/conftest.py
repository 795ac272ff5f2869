"""Child processes for the log tests, ended when their test ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Child = subprocess.Popen[str]
Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def run(command: str, directory: Path, *arguments: object) -> Child:
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), command, str(directory), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()
