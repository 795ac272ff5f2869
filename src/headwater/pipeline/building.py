"""What the process beside the cells runs: it builds a template's state from the rows that were read, into files.

The order lies in the directory; the files go there, and at last what was built. The process appends nothing to the log.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.durable import read_checked, write_checked
from headwater.model.limits import Limits
from headwater.pipeline.layout import Layout
from headwater.pipeline.records import Activate, Built
from headwater.pipeline.side import Side

ORDER, BUILT = "order", "built"
_ROUNDS_MAX = 8
_RECORDS_FEW = 64  # a cell takes so many in one short step
_END = 1 << 62


class Order(msgspec.Struct, frozen=True):
    """Build this template for these of so many query partitions, beginning with the rows as they are before `here`."""

    root: str
    activate: Activate
    partitions: tuple[int, ...]
    queries: int
    here: int
    limits: Limits


def build(order: Order, directory: Path) -> tuple[Built, ...]:
    """Large runs are written first, then what was logged meanwhile is taken, until that is little."""
    layout = Layout(Path(order.root))
    sides = {
        q: Side.begun(order.activate, layout, (q, order.queries), order.limits, order.here) for q in order.partitions
    }
    built = _saved(sides, directory)
    for _ in range(_ROUNDS_MAX):
        late = max(side.follow(_END) for side in sides.values())
        built = _saved(sides, directory)
        if late <= _RECORDS_FEW:
            break
    return built


def _saved(sides: dict[int, Side], directory: Path) -> tuple[Built, ...]:
    return tuple(side.save(q, directory) for q, side in sides.items())


def main(directory: Path) -> None:
    order = msgspec.msgpack.decode(read_checked(directory / ORDER), type=Order)
    write_checked(directory / BUILT, msgspec.msgpack.encode(build(order, directory)))
