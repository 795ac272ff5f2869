"""For every test: threads that look up often whether they shall end. A thousand databases are closed in a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater.gateway.hub
import headwater.pipeline.capture
import headwater.pipeline.inline
from tests.support.missing import leave_out

_QUICK_S = 0.03
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (headwater.gateway.hub, headwater.pipeline.capture, headwater.pipeline.inline):
        monkeypatch.setattr(module, "_WAIT_S", _QUICK_S)
    yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_LEFT_OUT] = leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(line, yellow=True)
