"""Processes that run questions: a slow question yields the processor to everyone else, and its process ends with it."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headwater.sources.cancellation import Cancellation, Cancelled
from headwater.sources.sqlite.questions import pool
from headwater.sources.sqlite.questions.pool import QuestionProcess, QuestionProcesses
from headwater.sources.sqlite.questions.worker import PROGRAM, send
from tests.support.processes import eventually

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r WHERE n < 0"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.execute("CREATE TABLE t (a)")
        db.execute("CREATE TABLE _headwater_log (seq INTEGER PRIMARY KEY)")
    return tmp_path / "shop.db"


def ask(process: QuestionProcess, cancellation: Cancellation) -> None:
    with contextlib.suppress(Cancelled):
        list(process.ask(cancellation, "query", ENDLESS))


def test_a_slow_question_has_the_lowest_priority_and_its_process_is_not_used_again(path: Path) -> None:
    processes, cancellation = QuestionProcesses(path), Cancellation()
    with processes.lent() as process:
        before = os.getpriority(os.PRIO_PROCESS, process.pid)
        asking = threading.Thread(target=ask, args=(process, cancellation))
        asking.start()
        eventually(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) > max(before, 18))
        cancellation.cancel()
        asking.join()
    with processes.lent() as other:
        assert other.pid != process.pid
        assert list(other.ask(Cancellation(), "compile", "SELECT a FROM t")) == []
    processes.close()


def test_a_process_whose_server_is_gone_ends_without_a_word(path: Path) -> None:
    """However the end of the server meets it: waiting for a question, or in the middle of one."""
    for requests in ([], [("query", ENDLESS, ())], [("compile", "SELECT a FROM t", ())] * 3):
        here, there = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, *pool._PATHS, str(path)]
        with there, subprocess.Popen(command, stdin=there.fileno(), stderr=subprocess.PIPE) as process:
            for request in requests:
                send(here, request)
            here.close()
            assert process.communicate()[1] == b""
