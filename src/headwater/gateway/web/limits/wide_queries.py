"""A rate limit, per address, for new queries with very many columns. Setting one up delays the other windows of its
cell in proportion to its width; so a client that asks for many of them waits, and no other client does.

A query that is already known costs nothing. It belongs to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from headwater.gateway.web.limits.token_bucket import TokenBucket
from headwater.model.errors import LimitExceeded
from headwater.model.limits import Limits

_BURST_S = 40.0  # of columns at the rate of the limit, at once
_WAIT_S = 10.0  # then it is refused
_ADDRESSES_MAX = 1_000  # remembered; past them those are forgotten that owe nothing


class WideQueries:
    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: dict[str, TokenBucket] = {}

    async def admit(self, address: str, columns: int | None = None) -> None:
        """Returns when it is the address's turn, and notes what it takes then, where that is known."""
        if columns is not None and columns < self._limits.wide_columns_min:
            return
        until_s = self._clock() + _WAIT_S
        while (wait_s := self._owed_s(address)) > 0:
            await asyncio.sleep(min(wait_s, max(0.0, until_s - self._clock())))
            if self._clock() >= until_s and (wait_s := self._owed_s(address)) > 0:
                raise LimitExceeded(
                    f"too many new queries of {self._limits.wide_columns_min} columns or more: "
                    f"at most {self._limits.new_columns_per_s_max} such columns per second",
                    hint="select fewer columns, or those of a query that is live already",
                    retry_after_ms=round(wait_s * 1000) + 1,
                )
        if columns is not None:
            self._bucket(address).take(self._clock(), columns)

    def _owed_s(self, address: str) -> float:
        bucket = self._buckets.get(address)
        return 0.0 if bucket is None else bucket.owed_s(self._clock())

    def _bucket(self, address: str) -> TokenBucket:
        if address not in self._buckets:
            if len(self._buckets) >= _ADDRESSES_MAX:
                self._buckets = {known: one for known, one in self._buckets.items() if self._owed_s(known) > 0}
            per_s = self._limits.new_columns_per_s_max
            self._buckets[address] = TokenBucket(per_s, _BURST_S * per_s, self._clock())
        return self._buckets[address]
