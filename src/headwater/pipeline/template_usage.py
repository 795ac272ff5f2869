"""Which instances of a template have subscribers, and since when a template has had none.

It decides nothing: the pipeline asks which templates are idle, and logs their end. It holds `lock` for both, so that no
subscription begins in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headwater.plan.template import Instance, Template


class TemplateUsage:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: dict[int, Instance] = {}
        self._instances: dict[str, set[int]] = {}
        self._templates: dict[str, Template] = {}
        self._idle: dict[str, float] = {}
        self.lock = threading.RLock()

    def begin(self, instances: Iterable[Instance], templates: Iterable[Template] = ()) -> None:
        """From here on their templates stay."""
        with self.lock:
            self._templates.update({one.id: one for one in templates})
            for one in instances:
                self._live[one.id] = one
                self._instances.setdefault(one.template, set()).add(one.id)
                self._idle.pop(one.template, None)

    def end(self, *instances: int) -> None:
        with self.lock:
            for instance in instances:
                ended = self._live.pop(instance, None)
                if ended is not None:
                    self._instances[ended.template].discard(instance)
                    self.rest(ended.template)
            if not self._live:
                self._live.clear()  # which lets go of the room for those that were there

    def template(self, id: str) -> Template | None:
        """None where nobody is subscribed to an instance of it."""
        return self._templates.get(id)

    def instances(self, template: str) -> list[Instance]:
        """Those with subscribers."""
        with self.lock:
            return [self._live[one] for one in self._instances.get(template, ())]

    def rest(self, *templates: str) -> None:
        """Those of them that nobody is subscribed to may go, a while from now."""
        with self.lock:
            for template in templates:
                if not self._instances.get(template):
                    self._instances.pop(template, None)
                    self._templates.pop(template, None)
                    self._idle.setdefault(template, self._clock())

    def idle(self, for_s: float) -> list[str]:
        """Those that have had no subscriber for so long."""
        with self.lock:
            return [template for template, since in self._idle.items() if self._clock() - since >= for_s]

    def forget(self, templates: Iterable[str]) -> None:
        with self.lock:
            for template in templates:
                self._idle.pop(template, None)
