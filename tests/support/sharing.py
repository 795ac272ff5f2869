"""How two processes share the tests (`pytest -n 2`): file by file, because fixtures may be dear, and all files that
need Spark as if they were one, because two sessions at once are too many. That piece is the longest, so it comes first.

xdist's own groups (`--dist loadgroup`) have no effect with the pytest we have: names of tests cannot be changed there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

_ROOT = Path(__file__).parents[2]


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False  # the tests come in the order they were given
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if needs_spark(file) else file


@cache
def needs_spark(file: str) -> bool:
    """Whether any of its tests does."""
    return "mark.spark" in (_ROOT / file).read_text()
