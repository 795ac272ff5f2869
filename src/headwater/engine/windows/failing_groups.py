"""FailingGroups: which groups of one template ask for a row of the relation whose evaluation fails.

A group that asks for the values of a failing row has no correct result while that row exists. A group that does not
ask for it is not affected, as in the source. Where a value is unknown, every group may be asking for it. It stores the
relation's failures and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from headwater.engine.operators.failures import Failure
from headwater.engine.ranges.ranges import selected_columns, within
from headwater.engine.windows.instance_index import InstanceIndex
from headwater.engine.windows.window import WindowGroup
from headwater.model.schema import Table
from headwater.plan.template import Template


class FailingGroups:
    """Failures by the bucket of their keys; under None those of which a key is not known."""

    def __init__(self, template: Template, table: Table, failures: Iterable[Failure]) -> None:
        self._keys = [table.index(name) for name in template.keys]
        self._selected = [table.index(name) for name in selected_columns(template)]
        self._filed: dict[bytes | None, set[Failure]] = {}
        for each in failures:
            self.add(each)

    def add(self, failure: Failure) -> None:
        self._filed.setdefault(self._bucket(failure), set()).add(failure)

    def remove(self, failure: Failure) -> None:
        bucket = self._bucket(failure)
        self._filed[bucket].remove(failure)
        if not self._filed[bucket]:
            del self._filed[bucket]

    def reason(self, group: WindowGroup) -> str | None:
        """Why the group has no right answer now; None where it has one. One reason, however the rows came."""
        if not self._filed:
            return None
        near = (failure for bucket in (group.bucket, None) for failure in self._filed.get(bucket, ()))
        return min((failure.reason for failure in near if self._concerns(failure, group)), default=None)

    def groups(self, failure: Failure, instances: InstanceIndex) -> list[WindowGroup]:
        """Whom a failure concerns. Where all is known of it that they ask by, it costs what it finds; else a look at
        every group."""
        bucket, selected = self._bucket(failure), [failure.told[place] for place in self._selected]
        if bucket is None or None in selected:
            return [group for group in instances.groups.values() if self._concerns(failure, group)]
        if instances.ranges is None:
            group = instances.groups.get(bucket)
            return [] if group is None else [group]
        _, slots = instances.ranges.find([bucket], [[value] for value in selected if value is not None])
        return [instances.by_slot[slot] for slot in slots.tolist()]

    def _concerns(self, failure: Failure, group: WindowGroup) -> bool:
        if not self._keyed(failure, group.bucket):
            return False
        spans = () if group.wanted is None else group.wanted.spans
        asked = zip(spans, (failure.told[place] for place in self._selected), strict=True)
        return all(value is None or within(each, value) for each, value in asked)

    def _bucket(self, failure: Failure) -> bytes | None:
        told = [failure.told[place] for place in self._keys]
        return None if None in told else _known(told)

    def _keyed(self, failure: Failure, bucket: bytes) -> bool:
        """Whether a bucket may be the row's: by the keys before the first and behind the last that is not known."""
        told = [failure.told[place] for place in self._keys]
        return bucket.startswith(_known(told)) and bucket.endswith(_known(told[::-1], backwards=True))


def _known(told: Sequence[bytes | None], *, backwards: bool = False) -> bytes:
    """The first of them, as far as they are known."""
    known = [value for value in takewhile(lambda value: value is not None, told) if value is not None]
    return b"".join(known[::-1] if backwards else known)
