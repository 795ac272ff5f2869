"""A timeout that expires only when nothing progresses. It reads no clock."""

from __future__ import annotations


class ProgressTimeout:
    """Is over when nothing has moved for `still_s`; every `tell_s` it is time to say what is waited for."""

    def __init__(self, still_s: float, tell_s: float, now: float) -> None:
        self._still_s, self._tell_s = still_s, tell_s
        self._moved_at, self._told_at = now, now
        self._sign: object = None

    def is_over(self, sign: object, now: float) -> bool:
        """`sign` is whatever tells that something has moved, by being another one than before."""
        if sign != self._sign:
            self._sign, self._moved_at = sign, now
        return now - self._moved_at > self._still_s

    def is_due(self, now: float) -> bool:
        if now - self._told_at < self._tell_s:
            return False
        self._told_at = now
        return True
