"""The limits of one socket: messages per second, subscriptions that query the database again, and idle time. It is
given the time, and closes nothing itself.
"""

from __future__ import annotations

from headwater.gateway.web.limits.token_bucket import TokenBucket
from headwater.model.errors import LimitExceeded
from headwater.model.limits import Limits
from headwater.protocol.session import UNEXPECTED, Phase, ServerSession

IDLE = 4408  # WebSocket close code
_BURST_S = 4.0  # of messages at the rate of the limit, at once


class SocketLimits:
    def __init__(self, limits: Limits, now_s: float) -> None:
        self._limits = limits
        self._pace = TokenBucket(limits.messages_per_s_max, _BURST_S * limits.messages_per_s_max, now_s)
        self._began_s = self._heard_s = now_s
        self._asked: set[str] = set()  # subscriptions that the database is asked for

    def hear(self, now_s: float) -> float:
        """A message has come: the seconds to wait before it is acted on. Nothing is lost by it."""
        self._heard_s = now_s
        return self._pace.take(now_s)

    def ask(self, id: str, strategy: str) -> None:
        """A subscription that is not followed change by change costs the database an answer whenever it changes."""
        if strategy == "incremental":
            return
        self._asked.add(id)
        if len(self._asked) > self._limits.questions_per_session_max:
            raise LimitExceeded(
                "too many subscriptions that query the database again: "
                f"at most {self._limits.questions_per_session_max} per session",
                hint="unsubscribe some; explain says why a query is not incremental",
                retry_after_ms=self._limits.retry_ms,
            )

    def forget(self, id: str) -> None:
        self._asked.discard(id)

    def farewell(self, session: ServerSession, now_s: float) -> tuple[int, str] | None:
        """Close code and reason where the socket is held for nothing: no hello in time, or nothing wanted and said."""
        limits = self._limits
        if session.phase is Phase.NEW and (now_s - self._began_s) * 1000 > limits.request_ms_max:
            return UNEXPECTED, f"no hello within {limits.request_ms_max} ms"
        if not session.subscriptions and (now_s - self._heard_s) * 1000 > limits.session_idle_ms_max:
            return IDLE, f"idle: no subscription and no message for {limits.session_idle_ms_max} ms"
        return None
