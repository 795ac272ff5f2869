"""Expulsion: a query at which a cell fails repeatedly ends, so that the cell can continue with all others.

A cell that raises is restarted and reads the same records again. If it fails again at the same place of the log for the
same table, relation or template, a record in the log ends that in this cell, with the reason. Failures are counted in a
file, because a Spark task knows nothing of the task before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.log.record import Kind
from headwater.log.segment import SegmentReader
from headwater.model.errors import Corrupt, Poisoned
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Expel, decode_control

FAILURES_MAX = 3


class _Count(msgspec.Struct):
    expel: Expel
    failures: int


def count(layout: Layout, cell: int, error: Poisoned) -> None:
    """One more failure of a cell. Another place in the log, or another culprit, is counted anew. What is certain to
    fail is not tried again."""
    expel = Expel(cell, error.after, error.name, error.message, error.over_budget)
    before = _read(layout, cell)
    again = before is not None and (before.expel.after, before.expel.name) == (expel.after, expel.name)
    failures = before.failures + 1 if before is not None and again else 1
    failures = FAILURES_MAX if error.certain else failures
    write_checked(layout.poison(cell), msgspec.msgpack.encode(_Count(expel, failures)))


@contextmanager
def placed(applied: int, *, certain: bool = True) -> Iterator[None]:
    """Whoever counts failures must know where in the log they happened, and whether work over budget could be done
    in smaller steps."""
    try:
        yield
    except Poisoned as error:
        error.after, error.certain = applied, certain and error.over_budget
        raise


def verdict(layout: Layout, cell: int) -> Expel | None:
    """Who must go, if it is time; that is said once."""
    found = _read(layout, cell)
    if found is None or found.failures < FAILURES_MAX:
        return None
    layout.poison(cell).unlink()
    return found.expel


def overburdened(layout: Layout, cell: int) -> int | None:
    """The log offset after which the cell was over budget, if it was: from there on it steps by single transactions,
    for several of them may be too much where each is not."""
    found = _read(layout, cell)
    return found.expel.after if found is not None and found.expel.over_budget else None


def _read(layout: Layout, cell: int) -> _Count | None:
    try:
        return msgspec.msgpack.decode(read_checked(layout.poison(cell)), type=_Count)
    except (FileNotFoundError, Corrupt, msgspec.MsgspecError):
        return None


def expulsions(layout: Layout, cell: int, applied: int) -> list[Expel]:
    """Those that a cell, which stands at `applied`, has before it."""
    reader = SegmentReader(layout.log, applied + 1)
    found: list[Expel] = []
    try:
        while records := reader.poll():
            decisions = [decode_control(record) for record in records if record.kind is Kind.DECISION]
            found += [one for one in decisions if isinstance(one, Expel) and one.cell == cell and one.after >= applied]
    finally:
        reader.close()
    return found
