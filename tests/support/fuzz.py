"""How hard the property tests try: the same examples in every run, and more and other ones with `HEADWATER_FUZZ`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

MULTIPLIER = int(os.environ.get("HEADWATER_FUZZ", "1"))

UNHURRIED = "unhurried"
settings.register_profile(
    UNHURRIED, derandomize=MULTIPLIER == 1, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def tries(count: int) -> settings:
    """For `@tries(200)` above a property test."""
    return settings(max_examples=count * MULTIPLIER)
