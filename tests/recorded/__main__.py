"""Records the logs anew: `python -m tests.recorded [sqlite] [postgres]`. What they emit is then written by running
tests/pipeline/test_recorded_log.py with HEADWATER_GOLDEN=1."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from headwater.pipeline.data_dir.layout import Layout
from tests.recorded import postgres, sqlite
from tests.recorded.archive import archive

RECORDERS = {"sqlite": sqlite.record, "postgres": postgres.record}


def main(names: list[str]) -> None:
    for name in names or RECORDERS:
        with tempfile.TemporaryDirectory() as directory:
            layout = Layout(RECORDERS[name](Path(directory)))
            for order in layout.hydration.glob("*/order"):  # it names the directory of this machine
                order.unlink()
            shutil.rmtree(layout.cells)
            archive(name, layout.root, ("log", "hydration"))


if __name__ == "__main__":
    main(sys.argv[1:])
