"""For every test: threads that look up often whether they shall end, for a thousand databases are closed in a run; and
patience with a slow machine where something is waited for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, expect, sync_playwright

import headwater.gateway.hub.diff_reader
import headwater.pipeline.capture
import headwater.pipeline.runners.inline
from headwater.client.aio import AsyncLiveResult
from headwater.client.live import LiveResult
from tests.support.fuzz import UNHURRIED
from tests.support.missing import CHROMIUM, leave_out
from tests.support.postgres import Servers
from tests.support.sharing import ByFile, needs_spark

_QUICK_S = 0.03
_PATIENCE_S = 120.0
_CHROMIUM_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (headwater.gateway.hub.diff_reader, headwater.pipeline.capture, headwater.pipeline.runners.inline):
        monkeypatch.setattr(module, "_WAIT_S", _QUICK_S)
    yield


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for what must come gives up late, however slow the machine is."""
    for wait in (LiveResult.wait, AsyncLiveResult.wait):
        monkeypatch.setattr(wait, "__defaults__", (None, None, _PATIENCE_S))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for the whole run: playwright has one loop a process."""
    expect.set_options(timeout=_PATIENCE_S * 1000)
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
    """A property holds however long it takes. A run in the background ignores Ctrl-C, and so would every program that
    a test starts and ends with it."""
    settings.load_profile(UNHURRIED)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs a database server is left out of the fast tier; what needs what is not here is left out by name."""
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: needs_spark(item.nodeid.partition("::")[0]), reverse=True)
    config.stash[_LEFT_OUT] = leave_out(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    return ByFile(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of the processes tells the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(_LEFT_OUT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(line, yellow=True)
