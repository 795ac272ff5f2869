"""Pocket's workload: the engine's result is checked after every event, and the peers play what the engine played."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import javascript_peers, pocket


def test_without_node_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    scenarios, reason = pocket.measure(rows=300, events=8)
    assert reason == "no Node with npm on this machine"
    assert len(scenarios) == 6 and all(one.event_ms > 0 and not one.peers for one in scenarios)


@pytest.mark.slow
@pytest.mark.npm
def test_the_peers_come_to_the_same_rows() -> None:
    scenarios, reason = pocket.measure(rows=300, events=8)
    assert not reason
    for one in scenarios:
        assert set(one.peers) == set(javascript_peers.PEERS)
        assert all(found.equal for found in one.peers.values()), one.what
