"""How hard the property tests try: the same examples in every run, and more and other ones with `HEADWATER_FUZZ`.

Below 1, as in `./dev test fast`, it is a share of the examples, at least one of each kind.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


class Multiplier(float):
    """`60 * FUZZ` is a number of tries: a whole one, and never 0."""

    def __rmul__(self, count: int) -> int:  # type: ignore[override]
        return max(1, round(count * float(self)))

    def __index__(self) -> int:
        return 1 * self


MULTIPLIER = Multiplier(os.environ.get("HEADWATER_FUZZ", "1"))

UNHURRIED = "unhurried"
settings.register_profile(
    UNHURRIED, derandomize=MULTIPLIER <= 1, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def tries(count: int) -> settings:
    """For `@tries(200)` above a property test."""
    return settings(max_examples=count * MULTIPLIER)
