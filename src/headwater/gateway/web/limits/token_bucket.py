"""A token bucket: a rate that may be exceeded briefly. It is given the time, and reads no clock."""

from __future__ import annotations


class TokenBucket:
    """`per_s` in the long run, `burst` at once."""

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._tokens, self._at_s = burst, now_s

    def take(self, now_s: float, tokens: float = 1) -> float:
        """Takes them; the seconds until they are there, 0 where they are there now."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s) - tokens
        self._at_s = now_s
        return max(0.0, -self._tokens / self._per_s)

    def owed_s(self, now_s: float) -> float:
        """The seconds until all that was taken is there."""
        return self.take(now_s, 0)
