"""Work: counters of what the engine did (law 10). Tests assert them instead of time."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.budget import Budget


@dataclass(slots=True)
class Work:
    """`gathered`: rows read from arrangements. `emitted`: edits. `rewritten`: rows copied by merges of runs.
    `reindexed`: entries of indexes copied by merges, or that came and went with demand, each a hash and a place.
    `paired`: pairs of a changed row and a group that may want it, by a list or a bound. `saved`: windows written down
    because they changed. `budget` is what the relation that is being stepped may still use."""

    gathered: int = 0
    emitted: int = 0
    rewritten: int = 0
    reindexed: int = 0
    paired: int = 0
    saved: int = 0
    budget: Budget = field(default_factory=Budget)
