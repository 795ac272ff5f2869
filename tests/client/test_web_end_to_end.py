"""The whole way in a real browser: open the page, subscribe, write to the file from another process, see the cell."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.processes import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WRITE = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()"


def write_elsewhere(path: Path, sql: str) -> None:
    subprocess.run([sys.executable, "-c", WRITE, str(path), sql], check=True)


@pytest.mark.parametrize("runner", ["inline", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_commit_in_another_process_changes_the_cell_on_the_page(
    runner: str, chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, done INTEGER)")
        db.execute("INSERT INTO tasks VALUES (1, 'look', 0), (2, 'listen', 0)")
    db.close()
    with served(path, tmp_path / "data", runner=runner) as server:
        page = chromium.new_page()
        page.goto(server.url.replace("ws://", "http://"))
        expect(page.locator("#runner")).to_contain_text(runner)
        page.fill("#sql", "SELECT id, title, done FROM tasks ORDER BY id")
        page.click("#run")
        cell = page.locator("#result tbody tr").nth(1).locator('td[data-col="title"]')
        expect(cell).to_have_text("listen")
        write_elsewhere(path, "UPDATE tasks SET title = 'listen closely' WHERE id = 2")
        expect(cell).to_have_text("listen closely")
        write_elsewhere(path, "INSERT INTO tasks VALUES (3, 'speak', 1)")
        expect(page.locator("#result tbody tr")).to_have_count(3)
        write_elsewhere(path, "DELETE FROM tasks WHERE id = 1")
        expect(page.locator('#result td[data-col="title"]')).to_have_text(["listen closely", "speak"])
        expect(page.locator("#emissions")).to_contain_text("listen closely")
        page.close()
