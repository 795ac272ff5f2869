"""A case from a number in which subscribers come and go all the time.

Their values overlap; the last one leaves and another comes; templates are released; state is saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.case import Case, Event, Query, Release, Reload, Subscribe, Unsubscribe, possible
from tests.fuzz.chance import Chance
from tests.fuzz.demand.asking import AskedFor
from tests.fuzz.history import History
from tests.fuzz.invent import random_rows, random_table
from tests.fuzz.oracle import Oracle


def demanded_case(seed: int, skeletons: int = 4, instances: int = 5, commits: int = 25, *, keyed: bool = False) -> Case:
    """`keyed`: mostly of tables that are asked for by key."""
    random = Random(f"demand {seed}")
    chance = Chance(random, random.choice((4, 6, 10)), random.random() < 0.25)
    tables = tuple(random_table(chance, name, random.random() < 0.1) for name in "pqr"[: chance.pick((2, 3, 3))])
    rows = random_rows(chance, tables)
    first = {name: tuple(each.values()) for name, each in rows.of_table.items()}
    groups = list(AskedFor(chance, tables, keyed).queries(skeletons, instances))
    asked = tuple(query for group in groups for query in group)
    with Oracle(tables) as oracle:
        audience = Audience(chance, groups)
        history = History(chance, rows, asked, oracle, drafts=2)
        events = [event for _ in range(commits) for event in (*audience.moves(), history.commit())]
    partitions, cut = chance.pick((1, 1, 2, 3)), chance.pick((1, 7, 50))
    return possible(Case(tables, first, asked, tuple(events), partitions, cut))


@dataclass(slots=True)
class Audience:
    """Who is there, and what they do between two transactions."""

    chance: Chance
    groups: Sequence[Sequence[Query]]
    _numbers: list[list[int]] = field(default_factory=list)
    _here: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for group in self.groups:
            first = sum(map(len, self._numbers))
            self._numbers.append(list(range(first, first + len(group))))

    def moves(self) -> Iterator[Event]:
        while self.chance.likely(0.6):
            numbers = self.chance.pick(self._numbers)
            match self.chance.pick(("one", "one", "one", "one", "again", "all leave", "last and next", "reload")):
                case "one":
                    yield from self._turned(self.chance.pick(numbers))
                case "again":
                    one = self.chance.pick(numbers)
                    yield from (*self._turned(one), *self._turned(one))
                case "all leave":
                    yield from self._emptied(numbers)
                case "last and next":
                    yield from self._emptied(numbers)
                    yield from self._turned(self.chance.pick(numbers))
                case "reload":
                    yield Reload()

    def _emptied(self, numbers: Sequence[int]) -> Iterator[Event]:
        for one in numbers:
            if one in self._here:
                yield from self._turned(one)
        if self.chance.likely(0.4):
            yield Release(numbers[0])

    def _turned(self, number: int) -> Iterator[Event]:
        if number in self._here:
            self._here.discard(number)
            yield Unsubscribe(number)
        else:
            self._here.add(number)
            yield Subscribe(number)
