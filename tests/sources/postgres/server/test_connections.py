"""Addresses as libpq's users know them: every one opens the database, and capture works through it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from headwater.gateway.server import Server
from headwater.model.change import Change, Transaction
from headwater.model.errors import SourceError
from headwater.sources.doctor import Severity
from headwater.sources.postgres.doctor.doctor import PostgresDoctor
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.registry import shown
from tests.sources.replica import drained
from tests.support.postgres import VERSIONS, WITH_TLS, Postgres, Servers
from tests.support.processes import eventually

Db = psycopg.Connection[Any]
PASSWORD = "p@ss:w/rd"


def _follows(url: str, directory: Path) -> None:
    """A change made through another door is heard through this one."""
    source = PostgresSource(url)
    try:
        source.attach(directory)
        source.execute("CREATE TABLE t (id int PRIMARY KEY)")
        source.capture("t")
        start = source.position()
        source.execute("INSERT INTO t VALUES (1)")
        (told,) = [one for one in drained(source, start) if isinstance(one, Transaction) and one.changes]
        assert told.changes == (Change("t", None, (1,)),)
        source.detach()
        source.execute("DROP TABLE t")
    finally:
        source.close()


def test_a_unix_socket(server: Postgres, database: str, tmp_path: Path) -> None:
    _follows(f"postgresql://postgres@/{database}?host={quote(str(server.root), safe='')}&port={server.port}", tmp_path)


def test_several_hosts_of_which_one_answers(server: Postgres, database: str, tmp_path: Path) -> None:
    hosts = f"127.0.0.1:1,127.0.0.1:{server.port}"
    _follows(f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write&connect_timeout=5", tmp_path)


def test_options_and_a_name_of_ones_own(server: Postgres, database: str, tmp_path: Path) -> None:
    url = f"{server.url(database)}?options=-c%20statement_timeout%3D7777&application_name=till"
    source = PostgresSource(url)
    asked = "SELECT current_setting('statement_timeout'), current_setting('application_name')"
    with source._sessions.lent() as db:  # a question may not ask for settings
        assert db.execute(f"{asked}, current_setting('TimeZone')".encode()).fetchall() == [("7777ms", "till", "UTC")]
    source.close()
    _follows(url, tmp_path)


def test_a_service_file(server: Postgres, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "services"
    file.write_text(f"[shop]\nhost=127.0.0.1\nport={server.port}\ndbname={database}\nuser=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    _follows("postgresql://?service=shop", tmp_path / "data")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """A server that asks one role for its password, and speaks TLS where it can."""
    server = Postgres((WITH_TLS or VERSIONS)[0])
    server.ask_passwords("secret")
    server.start()
    with server.connect() as db:
        db.execute(f"CREATE ROLE secret LOGIN SUPERUSER PASSWORD '{PASSWORD}'".encode())
    yield server
    server.remove()


@pytest.fixture
def asked(guarded: Postgres, servers: Servers) -> str:
    """Its address, without a password."""
    del servers  # a test that needs a server, if not one of those
    return f"postgresql://secret@127.0.0.1:{guarded.port}/postgres"


@pytest.mark.parametrize("way", ["address", "environment", "file"])
def test_a_password(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    match way:
        case "address":
            asked = asked.replace("secret@", f"secret:{quote(PASSWORD, safe='')}@")
        case "environment":
            monkeypatch.setenv("PGPASSWORD", PASSWORD)
        case _:
            file = tmp_path / "pgpass"
            file.write_text("*:*:*:secret:" + PASSWORD.replace(":", r"\:"))
            file.chmod(0o600)
            asked = f"{asked}?passfile={file}"
    _follows(asked, tmp_path / "data")


def test_a_wrong_password_is_said_and_not_shown(asked: str) -> None:
    with pytest.raises(SourceError, match="password authentication failed") as error:
        PostgresSource(asked.replace("secret@", "secret:WRONG@"))
    assert "WRONG" not in str(error.value)


def test_a_password_is_nowhere_to_be_seen(asked: str, tmp_path: Path) -> None:
    server = Server(asked.replace("secret@", f"secret:{quote(PASSWORD, safe='')}@"), runner="inline", data_dir=tmp_path)
    assert server.url == asked.replace("secret@", "secret:…@")
    server.start().close()


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://me:secret@host:5432/db?sslmode=require", "postgresql://me:…@host:5432/db?sslmode=require"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        (
            "postgresql://host:5432/db?user=me&password=secret&sslmode=x",
            "postgresql://host:5432/db?user=me&password=…&sslmode=x",
        ),
        ("postgresql://me:a:b@one:1,two:2/db", "postgresql://me:…@one:1,two:2/db"),
        ("postgresql://one:1,two:2/db", "postgresql://one:1,two:2/db"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_an_address_without_its_password(url: str, seen: str) -> None:
    assert shown(url) == seen


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority of our own, and a certificate of it for 127.0.0.1 alone."""
    directory = tmp_path_factory.mktemp("tls")
    for name in ("ca", "stranger"):
        _openssl(
            directory,
            "req -x509 -newkey rsa:2048 -nodes -days 2",
            f"-subj /CN={name}",
            f"-keyout {name}.key -out {name}.crt",
        )
    _openssl(directory, "req -newkey rsa:2048 -nodes -subj /CN=server -keyout server.key -out server.csr")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(
        directory,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
    )
    return directory


def _openssl(directory: Path, *words: str) -> None:
    command = ["openssl", *" ".join(words).split()]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def encrypted(authority: Path) -> Iterator[Postgres]:
    server = Postgres(WITH_TLS[0], {"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key"})
    for name in ("server.crt", "server.key"):
        copied = server.root / "data" / name
        copied.write_bytes((authority / name).read_bytes())
        server.own(copied)
    server.start()
    yield server
    server.remove()


@pytest.mark.tls
def test_a_checked_certificate(encrypted: Postgres, authority: Path, servers: Servers, tmp_path: Path) -> None:
    del servers
    url = f"{encrypted.url()}?sslmode=verify-full&sslrootcert={authority}/ca.crt"
    _follows(url, tmp_path)
    source = PostgresSource(url)
    source.attach(tmp_path)
    source.execute("CREATE TABLE seen (id int PRIMARY KEY)")
    source.capture("seen")
    source.changes(source.position(), 0.1)
    asked = (
        "SELECT bool_and(ssl), count(*) FILTER (WHERE backend_type = 'walsender') FROM pg_stat_ssl "
        "JOIN pg_stat_activity USING (pid) WHERE application_name = 'headwater'"
    )
    with encrypted.connect() as db:
        eventually(lambda: db.execute(asked.encode()).fetchone() == (True, 1))  # those of before may be leaving
    source.close()
    doctor = PostgresDoctor(url)
    (finding,) = [one for one in doctor.examine() if one.subject == "encryption"]
    doctor.close()
    assert finding.state is Severity.FINE
    assert "certificate verified" in finding.found


@pytest.mark.tls
@pytest.mark.parametrize(
    ("host", "root", "reason"),
    [("127.0.0.1", "stranger", "certificate verify failed"), ("localhost", "ca", "does not match host name")],
)
def test_a_certificate_that_does_not_prove_it(
    encrypted: Postgres, authority: Path, servers: Servers, host: str, root: str, reason: str
) -> None:
    del servers
    url = f"postgresql://postgres@{host}:{encrypted.port}/postgres?hostaddr=127.0.0.1"
    with pytest.raises(SourceError, match=reason):
        PostgresSource(f"{url}&sslmode=verify-full&sslrootcert={authority}/{root}.crt")


@pytest.mark.tls
def test_the_doctor_notes_a_certificate_that_nobody_checks(encrypted: Postgres, servers: Servers) -> None:
    del servers
    doctor = PostgresDoctor(f"{encrypted.url()}?sslmode=require")
    (finding,) = [one for one in doctor.examine() if one.subject == "encryption"]
    doctor.close()
    assert finding.state is Severity.NOTE
    assert "verify-full" in finding.then
