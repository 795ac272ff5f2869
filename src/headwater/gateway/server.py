"""A server: one source, its pipeline and its hub. Gateways and embedded databases are built on it."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from headwater.fs.temporary_directory import make_scratch, remove_scratch
from headwater.gateway.health import Monitor
from headwater.gateway.hub.hub import Hub
from headwater.model.errors import HeadwaterError
from headwater.model.limits import DEFAULT, Limits
from headwater.pipeline.data_dir.grid import Grid
from headwater.pipeline.pipeline import Pipeline
from headwater.pipeline.planning.options import PlanOptions
from headwater.pipeline.runners.inline import InlineRunner
from headwater.pipeline.runners.runner import Job, Runner
from headwater.sources import open_source, shown
from headwater.sql.syntax.parameters import Given


def make_runner(name: str, job: Job) -> Runner:
    if name == "inline":
        return InlineRunner(job)
    if name == "spark":
        from headwater.pipeline.runners.spark.runner import SparkRunner

        return SparkRunner(job)
    raise HeadwaterError(f"expected runner 'spark' or 'inline', found {name!r}")


def default_data_dir(source_name: str) -> Path:
    """A directory under the user's data home, named after the source."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return home / "headwater" / hashlib.blake2b(source_name.encode(), digest_size=8).hexdigest()


class Server:
    def __init__(
        self,
        url: str,
        *,
        runner: str = "spark",
        master: str | None = None,
        data_dir: Path | None = None,
        grid: Grid | None = None,
        epoch_s: float = 60.0,
        limits: Limits = DEFAULT,
        ephemeral: bool = False,
        options: PlanOptions | None = None,
    ) -> None:
        """`ephemeral`: without a data directory, nothing stays that would hold back the source's log."""
        self.url = shown(url)
        source = open_source(url)
        source.ephemeral = data_dir is None and (url.startswith("memory:") or (ephemeral and source.holds_log))
        self._scratch = make_scratch("embedded") if source.ephemeral else None
        try:
            self.pipeline = Pipeline(
                source,
                data_dir or self._scratch or default_data_dir(source.name),
                lambda job: make_runner(runner, job),
                grid=grid,
                epoch_s=epoch_s,
                master=master,
                limits=limits,
                options=options,
            )
        except BaseException:
            source.close()
            self._clear()
            raise
        self.hub = Hub(self.pipeline)
        self.monitor = Monitor(self.pipeline, self.hub)
        self._stop = threading.Lock()
        self._stopped = False

    def start(self) -> Server:
        try:
            self.hub.catch_up()
            self.pipeline.start()
            self.hub.start()
            self.monitor.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        with self._stop:
            if not self._stopped:
                self._stopped = True
                self.monitor.stop()
                self.hub.stop()
                try:
                    self.pipeline.close()
                finally:
                    self._clear()

    def _clear(self) -> None:
        if self._scratch is not None:
            remove_scratch(self._scratch)

    def explain(self, sql: str, params: Given = (), analyze: bool = False) -> str:
        return self.pipeline.explain(sql, params, analyze)
