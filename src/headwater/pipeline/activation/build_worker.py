"""The worker process that builds the state of a template from the rows that were read.

Its directory holds the order; it writes the state files there, then either the list of them or the reason why the
template exceeds a limit. It appends nothing to the log.
"""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec

from headwater.fs.atomic_write import read_checked, write_checked
from headwater.model.errors import OverBudget
from headwater.model.limits import Limits
from headwater.pipeline.activation.offline_build import OfflineBuild
from headwater.pipeline.data_dir.layout import Layout
from headwater.pipeline.records.control import Activate, Built

ORDER, BUILT, REFUSED = "order", "built", "refused"
_ROUNDS_MAX = 8
_RECORDS_FEW = 64  # a cell takes so many in one short step
_END = 1 << 62


class BuildOrder(msgspec.Struct, frozen=True):
    """Build this template for these of so many query partitions, beginning with the rows as they are before `here`."""

    root: str
    activate: Activate
    partitions: tuple[int, ...]
    queries: int
    here: int
    limits: Limits


def build(order: BuildOrder, directory: Path) -> tuple[Built, ...]:
    """Large runs are written first, then what was logged meanwhile is taken, until that is little."""
    layout = Layout(Path(order.root))
    sides = {
        q: OfflineBuild.begun(order.activate, layout, (q, order.queries), order.limits, order.here)
        for q in order.partitions
    }
    built = _saved(sides, directory)
    for _ in range(_ROUNDS_MAX):
        late = max(side.follow(_END) for side in sides.values())
        built = _saved(sides, directory)
        if late <= _RECORDS_FEW:
            break
    return built


def _saved(sides: dict[int, OfflineBuild], directory: Path) -> tuple[Built, ...]:
    return tuple(side.save(q, directory) for q, side in sides.items())


def main(directory: Path) -> None:
    order = msgspec.msgpack.decode(read_checked(directory / ORDER), type=BuildOrder)
    memory_bytes = order.limits.build_memory_bytes_max
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    try:
        write_checked(directory / BUILT, msgspec.msgpack.encode(build(order, directory)))
    except OverBudget as error:
        write_checked(directory / REFUSED, error.message.encode())
    except MemoryError:
        reason = f"the query needs more than {memory_bytes:,} bytes of memory to be set up"
        write_checked(directory / REFUSED, reason.encode())
