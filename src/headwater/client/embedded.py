"""The embedded backend: source, pipeline and hub in this process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from headwater.client.database import Effective, Opened, Params
from headwater.client.session import ClientSession
from headwater.gateway.server import Server
from headwater.gateway.status import status
from headwater.model.emission import Fields
from headwater.model.encoding.python_values import natural
from headwater.model.union import Value
from headwater.plan.planner import Planned
from headwater.plan.strategy import ASKED


class Embedded:
    def __init__(self, server: Server, session: ClientSession) -> None:
        self._server, self._pipeline, self._hub = server, server.pipeline, server.hub
        self._session = self._hub.open(session, eager=True)
        self._planned: dict[str, Planned] = {}

    def open(self, live_id: str, sql: str, params: Params) -> Opened:
        planned = self._hub.prepare(self._session, self._pipeline.plan(sql, params))
        self._planned[live_id] = planned
        self._hub.subscribe(self._session, live_id, planned)
        return Opened(tuple(output.name for output in planned.template.outputs), planned.strategy)

    def drop(self, live_id: str, forget: bool) -> None:
        self._hub.unsubscribe(self._session, live_id, forget=forget)
        self._planned.pop(live_id, None)

    def again(self, live_id: str) -> None:
        planned = self._planned.get(live_id)
        if planned is not None:
            self._hub.unsubscribe(self._session, live_id)
            self._hub.subscribe(self._session, live_id, self._pipeline.plan(planned.text, planned.given))

    def reach(self, position: int) -> None:
        """The session is eager: it hears of every position."""

    def query(self, sql: str, params: Params) -> tuple[tuple[str, ...], list[tuple[Value, ...]], int]:
        answer = self._pipeline.ask(sql, params)
        return tuple(answer.columns), [tuple(map(natural, row)) for row in answer.rows], answer.position

    def execute(self, sql: str, params: Params) -> int:
        return self._pipeline.source.execute(sql, params)

    def executemany(self, sql: str, rows: Iterable[Params]) -> int:
        return self._pipeline.source.executemany(sql, rows)

    def transaction(self) -> AbstractContextManager[Any]:
        return self._pipeline.source.transaction()

    def position(self) -> int:
        return self._pipeline.source.position()

    def explain(self, sql: str, params: Params, analyze: bool) -> str:
        return self._server.explain(sql, params, analyze)

    def status(self) -> dict[str, Any]:
        return status(self._server)

    def effective(self, sql: str, params: Params) -> Effective:
        planned = self._pipeline.plan(sql, params)
        asked = planned.strategy in ASKED and not planned.moved
        answer = self._pipeline.ask(self._pipeline.effective(planned), params if asked else ())
        names = [output.name for output in planned.template.outputs]
        rows: list[Fields] = [dict(zip(names, map(natural, row), strict=True)) for row in answer.rows]
        return Effective(rows, answer.position, planned.template.ordered)

    def close(self) -> None:
        self._hub.close(self._session)
        self._server.close()
