"""For every test: threads that look up often whether they shall end. A thousand databases are closed in a run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

import headwater.gateway.hub
import headwater.pipeline.capture
import headwater.pipeline.inline
from tests.support.missing import CHROMIUM, leave_out
from tests.support.postgres import Servers

_QUICK_S = 0.03
_CHROMIUM_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (headwater.gateway.hub, headwater.pipeline.capture, headwater.pipeline.inline):
        monkeypatch.setattr(module, "_WAIT_S", _QUICK_S)
    yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for the whole run: playwright has one loop a process."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_CHROMIUM_FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Real PostgreSQL servers: one for each version that a test asks for, for the whole run."""
    servers = Servers()
    yield servers
    servers.close()


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would every program that a test starts and ends with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs a database server is left out of the fast tier; what needs what is not here is left out by name."""
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    config.stash[_LEFT_OUT] = leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(line, yellow=True)
