"""The entry point of worker processes. A worker exits when the server does.

It runs with a lower priority than cells, and on one core.
"""

from __future__ import annotations

import importlib
import os
import threading
from pathlib import Path

import pyarrow as pa

_NICE = 10
PROGRAM = f"""
import os, sys
os.nice({_NICE})  # before all else: to import takes longer than many an errand

class NoPandas:  # Arrow would import it where it is installed, for a second, and not need it
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas)
from headwater.pipeline.activation.worker_process import main
main(*sys.argv[1:])
"""


def main(name: str, directory: str) -> None:
    """Runs the errand: a module beside this one, for which all that it needs lies in the directory."""
    _end_with_parent()
    pa.set_cpu_count(1)
    importlib.import_module(f"headwater.pipeline.activation.{name}").main(Path(directory))


def _end_with_parent() -> None:
    """Of whose life we know by our standard input."""

    def wait() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
