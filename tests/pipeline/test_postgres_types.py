"""Values of PostgreSQL's types all the way to a Python program, in this process and over a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headwater.model.encoding.python_values import Range
from headwater.model.time.interval import Interval
from tests.support.databases import WAYS, place
from tests.support.postgres import VERSIONS, Servers

_PATIENCE_S = 120.0
_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
# name: (type, as SQL, as Python, as SQL after an update, as Python)
VALUES: dict[str, tuple[str, str, Any, str, Any]] = {
    "flag": ("boolean", "true", True, "false", False),
    "price": ("numeric", "1.0", Decimal("1.0"), "1.00", Decimal("1.00")),
    "born": ("date", "'2024-02-29'", date(2024, 2, 29), "'infinity'", "infinity"),
    "clock": ("time", "'12:34'", time(12, 34), "'24:00'", "24:00:00"),
    "local": ("timestamp", "'2024-02-29 12:34'", datetime(2024, 2, 29, 12, 34), "NULL", None),
    "at": ("timestamptz", "'2024-02-29 12:34+02'", datetime(2024, 2, 29, 10, 34, tzinfo=UTC), "NULL", None),
    "span": ("interval", "'1 mon'", Interval(1), "'30 days'", Interval(0, 30)),
    "name": ("uuid", f"'{_UUID}'", UUID(_UUID), "NULL", None),
    "doc": ("jsonb", """'{"a": [1, null]}'""", {"a": [1, None]}, "'[true]'", [True]),
    "list": ("numeric[]", "'{1.5,NULL}'", [Decimal("1.5"), None], "'{}'", []),
    "host": ("inet", "'10.0.0.1'", ip_address("10.0.0.1"), "'::1'", ip_address("::1")),
    "span4": ("int4range", "'[1,5)'", Range(1, 5, "[)"), "'empty'", Range()),
}


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    server = servers[request.param]
    with server.database() as database:
        with psycopg.connect(server.url(database), autocommit=True) as db:
            columns = ", ".join(f"{name} {type}" for name, (type, *_) in VALUES.items())
            db.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})".encode())
            values = ", ".join(sql for _, sql, *_ in VALUES.values())
            db.execute(f"INSERT INTO t VALUES (1, {values})".encode())
        yield server.url(database)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_sees_what_python_has_for_each_type(url: str, tmp_path: Path, way: str) -> None:
    with place(way, tmp_path, url=url) as here:
        live = here.db.query("SELECT * FROM t", live=True)
        assert repr(list(live.rows)) == repr([{"id": 1} | {name: one[2] for name, one in VALUES.items()}])
        changed = ", ".join(f"{name} = {one[3]}" for name, one in VALUES.items())
        assert live.wait(here.write(f"UPDATE t SET {changed}"), timeout=_PATIENCE_S)
        assert repr(list(live.rows)) == repr([{"id": 1} | {name: one[4] for name, one in VALUES.items()}])
        if way == "embedded":
            here.db.verify(live)
