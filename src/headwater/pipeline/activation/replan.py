"""Plans the joins of an active relation anew, by its tables as they are now, and logs the order if it is much cheaper.

Its tables are read as for an activation. It does not decide when to look.
"""

from __future__ import annotations

import shutil

import msgspec

from headwater.model.errors import HeadwaterError
from headwater.pipeline.activation.activator import Activator, relation_pairs, still_fitting
from headwater.pipeline.activation.row_statistics import hydration_profiler
from headwater.pipeline.data_dir.catalog import RelationPlan
from headwater.pipeline.records.control import Activate
from headwater.plan.join_order.choice import better
from headwater.plan.join_order.order import JoinOrder
from headwater.plan.template import Template


def replan(activator: Activator, template: Template, reason: str, forced: JoinOrder | None = None) -> bool:
    """By whoever has the turn of its relation: whether its joins run in another order from now on, for that reason.
    `forced` is taken whatever it costs."""
    plan, relation = activator.catalog.plans.get(template.table), template.relation
    if plan is None or relation is None:
        return False
    read = _read(activator, template, reason)
    try:
        order = forced or better(relation, hydration_profiler(read.tables, activator.offload.directory), plan.order)
        if order is not None:
            read = _built(activator, template, msgspec.structs.replace(read, order=order))
            if _logged(activator, template, read, plan):
                activator.save()
                return True
    except HeadwaterError:
        _discard(activator, read)
        raise
    _discard(activator, read)
    return False


def _read(activator: Activator, template: Template, reason: str) -> Activate:
    since = activator.log.next_offset
    activator.turns.reads(template.table, since)
    read = activator.offload.hydrated(activator.source, sorted(template.tables), since, activator.progress)
    return Activate(template.id, template.sql, tuple(read), replanned=reason)


def _built(activator: Activator, template: Template, read: Activate) -> Activate:
    """What takes long is made beside the cells."""
    if read.position is not None:
        activator.capture.reached(read.position)
    pairs, here = relation_pairs(template, read), activator.log.next_offset
    built = activator.offload.built(read, activator.partitions(template), here, pairs)
    return msgspec.structs.replace(read, built=built)


def _logged(activator: Activator, template: Template, made: Activate, before: RelationPlan) -> bool:
    """Not where the relation has ended, or its tables have changed their shape, since it was looked at."""
    assert made.order is not None
    catalog = activator.catalog
    with activator.capture.lock:
        if catalog.plans.get(template.table) is not before or still_fitting(template, catalog.tables) is None:
            return False
        activator.kept(activator.log.append(made), made.since, made.kept)
        catalog.plans[template.table] = RelationPlan(made.order, before.replans + 1, made.replanned)
    return True


def _discard(activator: Activator, read: Activate) -> None:
    for name in read.kept:
        path = activator.offload.directory / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
