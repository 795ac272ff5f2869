"""The keys of tables that are held by key: which are in the log with their rows, who asks for them, and since when
nobody does.

It logs nothing. Whoever logs that keys come or go holds `lock` meanwhile, so that no subscription counts on what goes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headwater.model.change import Change
from headwater.model.key_demand import DemandFilter, Demands, KeyDemand
from headwater.model.schema import Table

Place = tuple[str, tuple[str, ...]]  # a table, and the columns that it is asked for by


@dataclass(slots=True)
class KeysByColumns:
    """`let_in` are those whose changes are logged: `fetched` ones, and others that are being fetched. `asked` are the
    instances that ask for each key, `idle` those that nobody asks for, and since when. The `fetched` ones have the
    bytes of their rows, as far as they were fetched in this life."""

    fetched: dict[bytes, int] = field(default_factory=dict)
    let_in: set[bytes] = field(default_factory=set)
    asked: dict[bytes, set[int]] = field(default_factory=dict)
    idle: dict[bytes, float] = field(default_factory=dict)


class HeldKeys:
    def __init__(
        self, fetched: Mapping[Place, Collection[bytes]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Those that were `fetched` before a restart: nobody has asked for them yet."""
        self._clock = clock
        self.lock = threading.RLock()
        self._places: dict[Place, KeysByColumns] = {}
        self._claims: dict[int, tuple[Place, tuple[bytes, ...]]] = {}
        self._filters: dict[str, tuple[Table, DemandFilter]] = {}
        for place, keys in (fetched or {}).items():
            self.let_in(place, keys)
            self.note_fetched(place, keys)

    def _of(self, place: Place) -> KeysByColumns:
        if place not in self._places:
            self._places[place] = KeysByColumns()
            self._filters.pop(place[0], None)
        return self._places[place]

    # — who asks

    def claim(self, instance: int, place: Place, keys: Iterable[bytes]) -> None:
        """From here on the keys stay, once they are fetched."""
        with self.lock:
            held = self._of(place)
            self._claims[instance] = place, tuple(keys)
            for key in self._claims[instance][1]:
                held.asked.setdefault(key, set()).add(instance)
                held.idle.pop(key, None)

    def release(self, instances: Iterable[int]) -> None:
        """Nobody asks for these any more."""
        with self.lock:
            for instance in instances:
                if instance in self._claims:
                    place, keys = self._claims.pop(instance)
                    for key in keys:
                        self._unclaim(instance, place, key)

    def _unclaim(self, instance: int, place: Place, key: bytes) -> None:
        keys = self._of(place)
        asking = keys.asked.get(key, set())
        asking.discard(instance)
        if not asking:
            keys.asked.pop(key, None)
            if key in keys.fetched:
                keys.idle.setdefault(key, self._clock())

    # — what is there

    def missing(self, place: Place, keys: Iterable[bytes]) -> set[bytes]:
        """Those that are not fetched."""
        with self.lock:
            return set(keys) - self._of(place).fetched.keys()

    def let_in(self, place: Place, keys: Iterable[bytes]) -> None:
        """From here on their changes are logged. Under the lock of the capture."""
        with self.lock:
            self._of(place).let_in.update(keys)

    def keep_out(self, place: Place, keys: Iterable[bytes]) -> None:
        """They could not be fetched."""
        with self.lock:
            held = self._of(place)
            held.let_in.difference_update(set(keys) - held.fetched.keys())

    def note_fetched(self, place: Place, keys: Collection[bytes], size: int = 0) -> None:
        """Their rows are logged, which have so many bytes together."""
        with self.lock:
            held = self._of(place)
            held.fetched.update(dict.fromkeys(keys, size // max(1, len(keys))))
            now = self._clock()
            held.idle.update({key: now for key in keys if key not in held.asked})

    def demands(self, table: str) -> Demands:
        """All that is fetched of a table."""
        with self.lock:
            places = [(columns, held) for (name, columns), held in self._places.items() if name == table]
            return tuple(KeyDemand(columns, frozenset(held.fetched)) for columns, held in places if held.fetched)

    # — what goes

    def forget(self, table: str) -> None:
        """The table is captured no more, or anew."""
        with self.lock:
            for place in [each for each in self._places if each[0] == table]:
                del self._places[place]
            self._claims = {one: claim for one, claim in self._claims.items() if claim[0][0] != table}
            self._filters.pop(table, None)

    def take_idle(self, table: str, idle_s: float, keys_max: int, bytes_max: int) -> dict[Place, tuple[bytes, ...]]:
        """Takes out those that nobody has asked for so long; and of others that nobody asks for the oldest, where there
        are more keys than that, or more bytes of rows. Under the lock, until that is logged."""
        now = self._clock()
        places = {place: held for place, held in self._places.items() if place[0] == table}
        idle = sorted((since, place, key) for place, held in places.items() for key, since in held.idle.items())
        surplus = sum(len(held.fetched) for held in places.values()) - keys_max
        excess = sum(sum(held.fetched.values()) for held in places.values()) - bytes_max
        gone: dict[Place, list[bytes]] = {}
        for since, place, key in idle:
            if surplus > 0 or excess > 0 or now - since >= idle_s:
                gone.setdefault(place, []).append(key)
                surplus, excess = surplus - 1, excess - places[place].fetched[key]
        return {place: self._taken(place, keys) for place, keys in gone.items()}

    def take_all(self, place: Place) -> tuple[bytes, ...]:
        """Takes out all of them: nothing reads the table by these columns any more."""
        held = self._places.get(place)
        return () if held is None else self._taken(place, list(held.fetched))

    def _taken(self, place: Place, keys: Iterable[bytes]) -> tuple[bytes, ...]:
        held, gone = self._places[place], tuple(sorted(keys))
        held.let_in.difference_update(gone)
        for key in gone:
            held.fetched.pop(key, None)
            held.idle.pop(key, None)
        return gone

    # — the door

    def let_through(self, table: Table, change: Change) -> Change | None:
        """What of a change is logged: a row that nobody asks for, before or after it, is not told."""
        takes = self._filter(table).takes
        old = change.old if change.old is not None and takes(change.old) else None
        new = change.new if change.new is not None and takes(change.new) else None
        if old is None and new is None:
            return None
        return change if old is change.old and new is change.new else Change(change.table, old, new)

    def _filter(self, table: Table) -> DemandFilter:
        known = self._filters.get(table.name)
        if known is None or known[0] is not table:
            with self.lock:
                keys = [(columns, held.let_in) for (name, columns), held in self._places.items() if name == table.name]
                known = self._filters[table.name] = table, DemandFilter(table, keys)
        return known[1]
