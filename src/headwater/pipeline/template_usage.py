"""Which instances of a template have subscribers, and since when a template has had none.

It decides nothing: the pipeline asks which templates are idle, and logs their end. It holds `lock` for both, so that no
subscription begins in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headwater.plan.template import Instance


class TemplateUsage:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._template: dict[int, str] = {}
        self._instances: dict[str, set[int]] = {}
        self._idle: dict[str, float] = {}
        self.lock = threading.RLock()

    def begin(self, instances: Iterable[Instance]) -> None:
        """From here on their templates stay."""
        with self.lock:
            for one in instances:
                self._template[one.id] = one.template
                self._instances.setdefault(one.template, set()).add(one.id)
                self._idle.pop(one.template, None)

    def end(self, *instances: int) -> None:
        with self.lock:
            for instance in instances:
                template = self._template.pop(instance, None)
                if template is not None:
                    self._instances[template].discard(instance)
                    self.rest(template)
            if not self._template:
                self._template.clear()  # which lets go of the room for those that were there

    def rest(self, *templates: str) -> None:
        """Those of them that nobody is subscribed to may go, a while from now."""
        with self.lock:
            for template in templates:
                if not self._instances.get(template):
                    self._instances.pop(template, None)
                    self._idle.setdefault(template, self._clock())

    def idle(self, for_s: float) -> list[str]:
        """Those that have had no subscriber for so long."""
        with self.lock:
            return [template for template, since in self._idle.items() if self._clock() - since >= for_s]

    def forget(self, templates: Iterable[str]) -> None:
        with self.lock:
            for template in templates:
                self._idle.pop(template, None)
