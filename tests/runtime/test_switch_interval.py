"""The switch interval is short while somebody works, and then what it was."""

from __future__ import annotations

import sys

from headwater.runtime.switch_interval import yielding


def test_threads_change_often_while_somebody_works() -> None:
    before = sys.getswitchinterval()
    with yielding():
        with yielding():
            often = sys.getswitchinterval()
        assert sys.getswitchinterval() == often < before
    assert sys.getswitchinterval() == before
