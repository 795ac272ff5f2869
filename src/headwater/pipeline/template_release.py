"""The end of templates: without subscribers for long, lost, or expelled from a cell.

A template is removed from the catalog before its end is logged: reading rows again that the cells still have does no
harm, relying on rows that they no longer have would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from headwater.pipeline.activation.keyed_lock import KeyedLock
from headwater.pipeline.by_key.eviction import KeyEviction
from headwater.pipeline.data_dir.catalog import Catalog
from headwater.pipeline.records.control import Expel, Release, Tick
from headwater.pipeline.records.control_log import ControlLog
from headwater.pipeline.template_usage import TemplateUsage
from headwater.plan.template import Template


class TemplateRelease:
    """`lock` is the capture's; `save` writes the catalog to its file."""

    def __init__(
        self,
        catalog: Catalog,
        log: ControlLog,
        usage: TemplateUsage,
        turns: KeyedLock,
        lock: threading.Lock,
        save: Callable[[], None],
        keys: KeyEviction,
    ) -> None:
        self._catalog, self._log, self._usage = catalog, log, usage
        self._turns, self._lock, self._save, self._keys = turns, lock, save, keys

    def expire(self) -> None:
        """Subscriptions of an earlier life that nobody took up again end, and with them what only they needed."""
        self._log.append(Tick(self._catalog.boot))
        self._usage.rest(*list(self._catalog.templates))

    def release_idle(self, idle_s: float) -> None:
        """Lets go of the templates that nobody has been subscribed to for so long: in the log, so in all cells."""
        with self._turns.nobody() as quiet:
            if not quiet:
                return  # what is activated just now may count on what a template without subscribers has
            with self._usage.lock, self._lock:
                idle = self._usage.idle(idle_s)
                if idle:
                    self._release(idle)

    def _release(self, templates: Sequence[str]) -> None:
        arranged = set(self._catalog.arranged)
        for template in templates:
            self._catalog.release(template)
        self._save()
        self._usage.forget(templates)
        over = [(one.name, one.keys) for one in arranged - self._catalog.arranged if one.name in self._catalog.by_key]
        with self._keys.held.lock:
            gone = self._keys.released(over)
            self._log.append_many([*gone, *(Release(template) for template in templates)])
        self._keys.follow_rest({name for name, _ in over})

    def lost(self, template: Template) -> None:
        """A relation that ended in its cell is read anew when somebody asks again."""
        if template.relation is not None and self._catalog.templates.pop(template.id, None) is not None:
            self._catalog.forget_relation(template.table)
            self._save()

    def expel(self, expel: Expel) -> None:
        """What a cell cannot get past ends there; who asks for it again, as soon as that can be read, begins anew."""
        self._catalog.expel(expel.name)
        self._keys.held.forget(expel.name)
        self._log.append(expel)
        self._save()
