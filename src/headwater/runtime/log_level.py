"""Which of our log lines are shown, on standard error: warnings and errors, unless HEADWATER_LOG names another level.

A program that has set up Python's logging itself keeps its handlers: only the level of the `headwater` loggers is set.
"""

from __future__ import annotations

import logging
import os

VARIABLE = "HEADWATER_LOG"
LEVELS = ("debug", "info", "warning", "error", "critical")
_BRIEF = "headwater: %(message)s"
_DETAILED = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s[%(process)d]: %(message)s"


def show_logs(verbose: bool = False) -> None:
    """`verbose` is debug. It is passed on to the processes that we start."""
    if verbose:
        os.environ[VARIABLE] = "debug"
    asked = os.environ.get(VARIABLE, "").strip().lower()
    level = logging.getLevelName(asked.upper()) if asked in LEVELS else logging.WARNING
    is_detailed = level < logging.WARNING
    logging.basicConfig(level=logging.WARNING, format=_DETAILED if is_detailed else _BRIEF, datefmt="%H:%M:%S")
    log = logging.getLogger("headwater")
    log.setLevel(level)
    if asked and asked not in LEVELS:
        log.warning("%s: expected one of %s, found %r", VARIABLE, ", ".join(LEVELS), asked)
