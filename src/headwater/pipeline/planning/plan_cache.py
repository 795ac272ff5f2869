"""The plan cache: a known text with other values needs no parsing where the values only fill in parameters.

Whether they do is tested, not assumed: the text is planned once more with values that occur nowhere else. If each of
them appears as a value, limit or offset of the instance, and nothing else differs, values can be filled in directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from headwater.model.errors import HeadwaterError
from headwater.model.value import Value
from headwater.plan.fingerprint import instance_id
from headwater.plan.planner import Planned
from headwater.plan.template import Instance
from headwater.sql.syntax.parameters import Given

Plan = Callable[[str, Given], Planned]
Named = Mapping[Any, Any]  # the value of each parameter, by its name or number
Slot = int | str | None
Shape = tuple[tuple[int | str, type, bool], ...]
_PLANS_MAX = 4096  # then the oldest goes
_PLAIN = (int, str, bytes, UUID, date, datetime)  # a float may be told as an integer, a NULL changes the plan
_INTEGERS = range(-(1 << 63), 1 << 63)
_FOUR_BYTES = range(-(1 << 31), 1 << 31)  # there are columns that take no larger one, and say so
_PROBE, _WIDE_PROBE = 1 << 30, 1 << 62
_UUID = re.compile("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ParameterSlots:
    """A plan, and for each value of its instance the parameter that fills it, or those that fill a list; none where the
    text itself does."""

    planned: Planned
    values: tuple[Slot | tuple[Slot, ...], ...]
    limit: int | str | None
    offset: int | str | None

    def filled(self, given: Mapping[int | str, Any]) -> Planned | None:
        """The plan for these values; none where a limit is no count, or a list holds a value twice: that means
        something else."""
        made = self.planned.instance
        pairs = zip(self.values, made.values, strict=True)
        values = tuple(_filled(slot, value, given) for slot, value in pairs)
        limit: Any = made.limit if self.limit is None else given[self.limit]
        offset: Any = made.offset if self.offset is None else given[self.offset]
        if None in values or not (_is_count(limit) and _is_count(offset)):
            return None
        id = instance_id(made.template, values, limit, offset)
        return replace(self.planned, instance=Instance(id, made.template, values, limit, offset))


class PlanCache:
    """Safe to use from several threads. Forget everything when a table changes."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots: dict[tuple[str, Shape], ParameterSlots | None] = {}

    def forget(self) -> None:
        self._slots = {}

    def knows(self, sql: str, params: Given) -> bool:
        """Whether values are only put into a plan that was made before."""
        shape = _shape(_by_name(params))
        return shape is not None and self._slots.get((sql, shape)) is not None

    def plan(self, sql: str, params: Given) -> Planned:
        given = _by_name(params)
        shape = _shape(given)
        if shape is None:
            return self._plan(sql, params)
        slots, known = self._slots, (sql, shape)
        if known not in slots:
            return self._learn(slots, known, params, given)
        found = slots[known]
        return (found.filled(given) if found is not None else None) or self._plan(sql, params)

    def _learn(
        self,
        slots: dict[tuple[str, Shape], ParameterSlots | None],
        known: tuple[str, Shape],
        params: Given,
        given: Named,
    ) -> Planned:
        """Into the slots it was asked with: if they were forgotten meanwhile, so is this."""
        planned = self._plan(known[0], params)
        learnt = self._probed(planned, known[0], params, given)
        while len(slots) >= _PLANS_MAX:
            slots.pop(next(iter(slots)), None)
        slots[known] = learnt if learnt is not None and learnt.filled(given) == planned else None
        return planned

    def _probed(self, planned: Planned, sql: str, params: Given, given: Named) -> ParameterSlots | None:
        """Of a text without parameters there is nothing to find out."""
        if not given:
            values: tuple[Slot, ...] = (None,) * len(planned.instance.values)
            return ParameterSlots(planned, values, None, None)
        probes: Any = {name: _probe(number, value) for number, (name, value) in enumerate(given.items())}
        try:
            planned = self._plan(sql, probes if isinstance(params, Mapping) else list(probes.values()))
        except HeadwaterError:
            return None
        slot = {(type(probe), probe): name for name, probe in probes.items()}
        slot |= {
            (UUID, UUID(probe)): name for name, probe in probes.items() if isinstance(probe, str) and _is_special(probe)
        }
        made = planned.instance
        limit, offset = (slot.get((type(number), number)) for number in (made.limit, made.offset))
        slots = ParameterSlots(planned, tuple(_slots(value, slot) for value in made.values), limit, offset)
        each = (one for found in slots.values for one in (found if isinstance(found, tuple) else (found,)))
        return slots if {*each, limit, offset} >= set(given) else None


def _slots(value: Value, slot: Mapping[tuple[type, Any], int | str]) -> Slot | tuple[Slot, ...]:
    """Those of a list only where its order is Python's own, whatever the column's collation."""
    if isinstance(value, tuple) and {type(each) for each in value} in ({int}, {bytes}, {UUID}):
        return tuple(slot.get((type(each), each)) for each in value)
    return slot.get((type(value), value))


def _filled(slot: Slot | tuple[Slot, ...], value: Any, given: Mapping[int | str, Any]) -> Any:
    """None for a list with a value twice."""
    if not isinstance(slot, tuple):
        return value if slot is None else _alike(given[slot], value)
    items = [_filled(one, each, given) for one, each in zip(slot, value, strict=True)]
    return tuple(sorted(items)) if len(set(items)) == len(items) else None


def _alike(given: Any, value: Any) -> Any:
    """As the column holds it: a uuid may be given as its text."""
    return UUID(given) if isinstance(value, UUID) and isinstance(given, str) else given


def _by_name(params: Given) -> Named:
    return dict(params) if isinstance(params, Mapping) else dict(enumerate(params))


def _shape(given: Named) -> Shape | None:
    """The types of the values, and whether they are special among these; none where one of them may be planned in a
    way of its own."""
    if all(map(_is_plain, given.values())):
        return tuple((name, type(value), _is_special(value)) for name, value in given.items())
    return None


def _is_plain(value: Any) -> bool:
    """A moment of another zone is held as one of UTC."""
    if isinstance(value, datetime) and value.tzinfo not in (None, UTC):
        return False
    return type(value) in _PLAIN and (type(value) is not int or value in _INTEGERS)


def _probe(number: int, value: Value) -> Value:
    """Like the value, and like no other."""
    match value:
        case int():
            return (_WIDE_PROBE if _is_special(value) else _PROBE) + 104729 * number + 12345
        case str():
            return str(_uuid_probe(number)) if _is_special(value) else f"\N{REPLACEMENT CHARACTER} probe {number}"
        case UUID():
            return _uuid_probe(number)
        case datetime():
            return datetime(4321, 1, 1, 1, 2, 3, 4 + number, tzinfo=UTC if _is_special(value) else None)
        case date():
            return date(4321, 1, 1) + timedelta(days=number)
        case _:
            return b"\xff probe %d" % number


def _uuid_probe(number: int) -> UUID:
    return UUID(int=(0x70726F6265 << 88) + number)


def _is_special(value: Any) -> bool:
    """An integer of more than four bytes, a text that is a uuid's, a moment with a zone."""
    match value:
        case int():
            return value not in _FOUR_BYTES
        case str():
            return _UUID.fullmatch(value) is not None
        case datetime():
            return value.tzinfo is not None
        case _:
            return False


def _is_count(number: Any) -> bool:
    return number is None or (type(number) is int and number >= 0)
