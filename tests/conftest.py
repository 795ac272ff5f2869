"""For every test: threads that look up often whether they shall end. A thousand databases are closed in a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater.gateway.hub
import headwater.pipeline.capture
import headwater.pipeline.inline

_QUICK_S = 0.03


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (headwater.gateway.hub, headwater.pipeline.capture, headwater.pipeline.inline):
        monkeypatch.setattr(module, "_WAIT_S", _QUICK_S)
    yield
