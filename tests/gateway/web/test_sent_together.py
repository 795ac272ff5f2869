"""What a commit means to a socket is sent in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.gateway.web.limits.bounded_protocols import TEXTS, BoundedWebSocket
from tests.support.databases import place


def test_a_diff_and_its_position_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[bytes]] = []
    send = BoundedWebSocket.send

    async def noted(self: BoundedWebSocket, message: Any) -> None:
        sent.append(list(message.get(TEXTS, ())))
        await send(self, message)

    monkeypatch.setattr(BoundedWebSocket, "send", noted)
    with place("ws", tmp_path) as here:
        here.write("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        here.write("INSERT INTO t VALUES (1, 10)")
        live = here.db.query("SELECT id, n FROM t", live=True)
        live.wait_ready(30)
        sent.clear()
        assert live.wait(here.write("UPDATE t SET n = 11"))
        assert [(row["id"], row["n"]) for row in live.rows] == [(1, 11)]
    kinds = [[text.split(b'"')[3] for text in texts] for texts in sent]
    assert [b"diff", b"progress"] in kinds
