"""A real browser and a small web server on loopback, for the browser's half of the client."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
SERVED = {
    "/client/": ROOT / "src/headwater/client/web",
    "/static/": ROOT / "src/headwater/gateway/static",
    "/vectors/": ROOT / "tests/vectors",
}


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the folders of `SERVED`, and an empty page for everything else."""

    def do_GET(self) -> None:
        if not self.path.startswith(tuple(SERVED)):
            return self._empty_page()
        return super().do_GET()

    def translate_path(self, path: str) -> str:
        prefix = next(prefix for prefix in SERVED if path.startswith(prefix))
        return str(SERVED[prefix] / Path(path).name)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _empty_page(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>empty</title><link rel=icon href='data:,'>")


@pytest.fixture(scope="session")
def files_url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(chromium: Browser, files_url: str) -> Iterator[Page]:
    """A page with nothing in it, of the origin that serves the client."""
    page = chromium.new_page()
    page.goto(files_url)
    yield page
    page.close()
