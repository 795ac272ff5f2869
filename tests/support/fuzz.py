"""How hard the property tests try: the same examples in every run, and more of them with `HEADWATER_FUZZ`."""

from __future__ import annotations

import os

from hypothesis import settings

MULTIPLIER = int(os.environ.get("HEADWATER_FUZZ", "1"))


def tries(count: int) -> settings:
    """For `@tries(200)` above a property test."""
    return settings(max_examples=count * MULTIPLIER, derandomize=True, deadline=None)
