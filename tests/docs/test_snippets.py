"""Every Python and shell snippet of the pages runs, for real, in a directory of its own with a small shop in it.

A block of text right after a snippet is what it prints. An HTML comment above a snippet says what is special about it:

    <!-- runs: continued -->          after the Python snippets before it on the page
    <!-- runs: until "live at" -->    it never ends by itself: it is stopped once it has said this
    <!-- runs: beside serve -->       while `headwater serve` and some traffic run on port 8080
    <!-- runs: spark -->              as it stands, but it needs Spark
    <!-- runs: beside postgres -->    while a PostgreSQL server runs on port 5432, with no database of ours in it
    <!-- runs: beside pgbench -->     while pgbench writes to its database `bench`

Several are separated by commas.

`./dev …` is not run (that would never end) but looked up. Ports 8080 and 5432 are exchanged for free ones.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.demo.shop import Size
from headwater.demo.shop_file import create_shop
from headwater.demo.traffic import Traffic
from tests.docs.pages import ROOT, Block, blocks, page, pages
from tests.support.postgres import BINARIES, VERSIONS, Postgres
from tests.support.processes import eventually, free_port

SMALL = Size(customers=20, orders=60, orders_max=120)
WAIT_S = 90.0
SPARK = [pytest.mark.spark, pytest.mark.slow]

pytestmark = pytest.mark.slow


def _params(*languages: str) -> list[object]:
    found = blocks(*languages)
    return [pytest.param(one, id=one.name, marks=SPARK if _needs_spark(one) else []) for one in found]


def _needs_spark(block: Block) -> bool:
    if "spark" in block.markers:
        return True
    serving = re.search(r"^headwater (demo|serve|watch|verify)\b", block.code, re.MULTILINE)
    return bool(serving) and "--runner inline" not in block.code and "ws://" not in block.code


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    create_shop(tmp_path / "shop.db", size=SMALL)
    return tmp_path


@pytest.mark.parametrize("block", _params("python"))
def test_a_python_snippet_runs(block: Block, shop: Path) -> None:
    port = str(free_port())
    with _surroundings(block, shop, port):
        command = [sys.executable, "-c", _with_what_came_before(block).replace("8080", port)]
        _run(command, shop, _printed(block))
        if block.name.startswith("README"):
            _run(command, shop, _printed(block))  # who tries it once tries it twice


@pytest.mark.parametrize("block", _params("sh"))
def test_a_shell_snippet_runs(block: Block, shop: Path, request: pytest.FixtureRequest) -> None:
    port = str(free_port())
    lines = [line for line in block.code.splitlines() if not line.startswith("./dev")]
    script = "\n".join(lines).replace("8080", port).strip()
    said = next((one.removeprefix("until ").strip('"') for one in block.markers if one.startswith("until ")), None)
    with _surroundings(block, shop, port), _databases(block, request) as database_port:
        script = script.replace("5432", database_port)
        if said is not None:
            _run_until(script, said, shop)
        elif script:
            _run(["bash", "-euo", "pipefail", "-c", script], shop, _printed(block))


def test_every_dev_command_exists() -> None:
    script = (ROOT / "dev").read_text()
    known = set(re.findall(r"^(\w+)\)$", script, re.MULTILINE))
    named = {word for one in pages() for word in re.findall(r"\./dev (\w+)", one.text)}
    assert named and named <= known, f"./dev has no {named - known}"


def test_the_readmes_example_is_short() -> None:
    first = next(block for block in page("README.md").blocks if block.language == "python")
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 12


def _with_what_came_before(block: Block) -> str:
    if "continued" not in block.markers:
        return block.code
    own = [one for one in page(block.page.name).blocks if one.language == "python" and one.line < block.line]
    first = max((n for n, one in enumerate(own) if "continued" not in one.markers), default=0)
    return "\n".join([*(one.code for one in own[first:]), block.code])


def _printed(block: Block) -> str | None:
    """What the page says it prints: a block of text that follows with nothing but an empty line between."""
    lines = page(block.page.name).text.splitlines()
    after = block.line + len(block.code.splitlines()) + 1
    following = next((one for one in page(block.page.name).blocks if one.line > block.line), None)
    if following is None or following.language != "text" or any(lines[after : following.line - 1]):
        return None
    return following.code.strip()


def _environment(home: Path) -> dict[str, str]:
    places = [Path(sys.executable).parent, BINARIES[VERSIONS[-1]], os.environ["PATH"]]
    path = os.pathsep.join(map(str, places))
    return {**os.environ, "PATH": path, "XDG_DATA_HOME": str(home / "home"), "TERM": "xterm", "COLUMNS": "100"}


@contextlib.contextmanager
def _surroundings(block: Block, shop: Path, port: str) -> Iterator[None]:
    """What the block's markers want to run beside it."""
    with contextlib.ExitStack() as stack:
        if "beside serve" in block.markers:
            stack.enter_context(_serving(shop, port))
            stack.enter_context(Traffic(shop / "shop.db", rate=20))
        yield


@contextlib.contextmanager
def _databases(block: Block, request: pytest.FixtureRequest) -> Iterator[str]:
    """The port of a PostgreSQL server, where one is wanted."""
    if not {"beside postgres", "beside pgbench"} & set(block.markers):
        yield "5432"
        return
    server = request.getfixturevalue("servers")[VERSIONS[-1]]
    with contextlib.ExitStack() as stack:
        stack.callback(_dropped, server)
        if "beside pgbench" in block.markers:
            stack.enter_context(_benched(server))
        yield str(server.port)


@contextlib.contextmanager
def _benched(server: Postgres) -> Iterator[None]:
    with server.connect() as db:
        db.execute("CREATE DATABASE bench")
    pgbench = str(BINARIES[server.version] / "pgbench")
    subprocess.run([pgbench, "-i", "-q", server.url("bench")], check=True, capture_output=True)
    command = [pgbench, "-c", "2", "-R", "50", "-T", str(int(WAIT_S)), server.url("bench")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writing:
        try:
            yield
        finally:
            writing.terminate()


def _dropped(server: Postgres) -> None:
    """With the slots that hold it: whoever read from them has ended."""
    slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'bench'"
    eventually(lambda: _has_done(server, slots))
    with server.connect() as db:
        db.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")


def _has_done(server: Postgres, sql: str) -> bool:
    with server.connect() as db:
        try:
            db.execute(sql.encode())
        except psycopg.errors.ObjectInUse:
            return False
    return True


def _run(command: list[str], cwd: Path, expected: str | None) -> None:
    done = subprocess.run(command, cwd=cwd, env=_environment(cwd), capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected is None or done.stdout.strip().endswith(expected), done.stdout


def _run_until(script: str, said: str, cwd: Path) -> None:
    """On a terminal, as a reader would see it; then Ctrl-C, and it must end well."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", f"exec {script.strip()}"],
        cwd=cwd,
        env=_environment(cwd),
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
    )
    os.close(far)
    try:
        _read_until(near, said)
        process.send_signal(signal.SIGINT)
        assert _ended(process, near) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(near)


def _read_until(terminal: int, said: str) -> None:
    seen, deadline = "", time.monotonic() + WAIT_S
    while said not in seen:
        assert time.monotonic() < deadline, f"never said {said!r}: {seen[-2000:]}"
        if select.select([terminal], [], [], 1.0)[0]:
            seen += _read(terminal)


def _ended(process: subprocess.Popen[bytes], terminal: int) -> int:
    """Reads on meanwhile: a full terminal would hold it up."""
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            _read(terminal)
    return process.wait(1.0)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # the other end is closed
        time.sleep(0.05)
        return ""


@contextlib.contextmanager
def _serving(shop: Path, port: str) -> Iterator[None]:
    command = ["headwater", "serve", "--source", "sqlite:///shop.db", "--runner", "inline", "--port", port]
    with subprocess.Popen(
        [Path(sys.executable).parent / command[0], *command[1:]],
        cwd=shop,
        env=_environment(shop),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and "live at" in process.stdout.readline()
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)
