"""Which web pages and names a gateway lets in: its own origin and loopback names, and no other that was not allowed."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import headwater
from headwater.cli import main
from headwater.demo.routes import demo_routes
from headwater.gateway.server import Server
from headwater.gateway.web.app import make_app
from headwater.gateway.web.origins import Allowed
from headwater.gateway.web.serve import Background, listen
from tests.support.missing import CHROMIUM

ROUTES = (
    "/",
    "/health",
    "/v1/status",
    "/v1/position",
    "/v1/explain?sql=SELECT+1",
    "/client/headwater.js",
    "/static/app.js",
    "/demo/queries",
    "/demo/rate",
    "/nowhere",
)
SECRET = "for the owner's eyes"


@dataclass(slots=True)
class Traffic:
    rate: float = 8.0


@dataclass(slots=True)
class Gateway:
    server: Server
    traffic: Traffic
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def shake_hands(self, host: str | None = None, **headers: str) -> int:
        """The status of a WebSocket handshake with these headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        address = f"ws://{host or '127.0.0.1'}:{self.port}/v1/ws"
        try:
            with connect(address, additional_headers=named, address=("127.0.0.1", self.port), proxy=None):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code


@contextlib.contextmanager
def opened(data_dir: Path, allowed: Allowed) -> Iterator[Gateway]:
    server, traffic = Server("memory://", runner="inline", data_dir=data_dir).start(), Traffic()
    routes = demo_routes(traffic, [{"title": "all", "sql": "SELECT name FROM t"}])
    bound = listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    background = Background(make_app(server, routes, allowed), bound)
    try:
        server.pipeline.source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", ())
        server.pipeline.source.execute("INSERT INTO t VALUES (1, ?)", (SECRET,))
        yield Gateway(server, traffic, port)
    finally:
        background.close()
        server.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with opened(tmp_path_factory.mktemp("data"), Allowed()) as found:
        yield found


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Another website: one empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another website; as 127.0.0.1 it is of the same site as the gateway, as localhost of another."""
    website = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=website.serve_forever, daemon=True)
    thread.start()
    yield website.server_port
    website.shutdown()
    website.server_close()
    thread.join()


ATTACK = """async (gateway) => {
  const told = (promise) => promise.then((value) => `got ${value}`, (error) => `no: ${error.name}`);
  const socket = new Promise((resolve, reject) => {
    const opened = new WebSocket(`${gateway.replace("http", "ws")}/v1/ws`);
    opened.onopen = () => {
      opened.send('{"type": "hello"}');
      opened.send('{"type": "subscribe", "id": "a", "sql": "SELECT name FROM t"}');
    };
    opened.onmessage = ({ data }) => JSON.parse(data).type === "result" && resolve(data);
    opened.onclose = () => reject(new Error("closed"));
  });
  const script = new Promise((resolve, reject) => {
    const element = document.createElement("script");
    Object.assign(element, { src: `${gateway}/client/wire.js`, type: "module" });
    element.onload = () => resolve("a script");
    element.onerror = () => reject(new Error("no script"));
    document.head.append(element);
  });
  const text = async (path, options) => (await fetch(gateway + path, options)).text();
  const simple = { method: "POST", body: '{"rate": 500}', mode: "no-cors" };
  const asked = { method: "POST", body: '{"rate": 500}', headers: { "Content-Type": "application/json" } };
  return {
    socket: await told(socket),
    script: await told(script),
    status: await told(text("/v1/status")),
    explain: await told(text("/v1/explain?sql=SELECT+name+FROM+t")),
    unseen: await told(text("/v1/explain?sql=SELECT+name+FROM+t", { mode: "no-cors" })),
    queries: await told(text("/demo/queries")),
    simple: await told(text("/demo/rate", simple)),
    asked: await told(text("/demo/rate", asked)),
  };
}"""


@contextlib.contextmanager
def page_at(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page()
    try:
        page.goto(address)
        yield page
    finally:
        page.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_reads_and_changes_nothing(
    chromium: Browser, gateway: Gateway, elsewhere: int, name: str
) -> None:
    with page_at(chromium, f"http://{name}:{elsewhere}/") as page:
        found = page.evaluate(ATTACK, gateway.url)
    assert {name for name, told in found.items() if told not in ("no: Error", "no: TypeError", "got ")} == set()
    assert SECRET not in json.dumps(found)
    assert gateway.traffic.rate == 8.0
    assert gateway.server.hub.subscriptions == 0


@pytest.mark.browser
def test_a_page_of_another_origin_cannot_frame_ours(chromium: Browser, gateway: Gateway, elsewhere: int) -> None:
    with page_at(chromium, f"http://127.0.0.1:{elsewhere}/") as page:
        with page.expect_console_message(lambda said: "frame-ancestors" in said.text):
            page.evaluate(
                "at => document.body.append(Object.assign(document.createElement('iframe'), {src: at}))", gateway.url
            )


@pytest.mark.browser
def test_a_name_rebound_to_loopback_is_refused_in_a_browser(chromium: Browser, gateway: Gateway) -> None:
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules])
    try:
        page = browser.new_page()
        answer = page.goto(f"http://rebound.example:{gateway.port}/v1/status")
        assert answer is not None and answer.status == 421 and "--allow-host" in answer.text()
        opened = """new Promise((resolve) => {
          const socket = new WebSocket(`ws://${location.host}/v1/ws`);
          socket.onopen = () => resolve("in");
          socket.onclose = () => resolve("out");
        })"""
        assert page.evaluate(opened) == "out"
    finally:
        browser.close()


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[2001:db8::1]",
        "10.0.0.1",
    ],
)
def test_a_host_that_is_not_ours_is_refused_everywhere(gateway: Gateway, path: str, host: str) -> None:
    status, body = gateway.answer(path, Host=host)
    assert status == 421
    assert json.loads(body)["error"]["code"] == "permission_denied"


@pytest.mark.parametrize("path", ROUTES)
def test_a_page_of_another_site_is_refused_everywhere_but_at_the_page(gateway: Gateway, path: str) -> None:
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}):
        assert (gateway.answer(path, **headers)[0] == 403) == (path != "/")
    for origin in (
        "http://evil.example",
        "null",
        f"http://localhost:{gateway.port}",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
    ):
        assert gateway.answer(path, Origin=origin)[0] == 403


def test_a_post_of_another_site_has_no_effect(gateway: Gateway) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        assert gateway.answer("/demo/rate", "POST", '{"rate": 100}', **headers)[0] == 403
    assert gateway.traffic.rate == 8.0
    assert gateway.answer("/demo/rate", "POST", '{"rate": 9}', Origin=gateway.url) == (200, '{"rate":9.0}')
    gateway.traffic.rate = 8.0


@pytest.mark.parametrize(
    "body", ['{"rate": NaN}', '{"rate": 1e999}', "[" * 900, "x" * 5_000, "", '{"rate": null}', "[]"]
)
def test_a_rate_that_is_none_changes_nothing(gateway: Gateway, body: str) -> None:
    assert gateway.answer("/demo/rate", "POST", body)[0] == 400
    assert gateway.traffic.rate == 8.0


def test_handshakes(gateway: Gateway) -> None:
    assert gateway.shake_hands() == 101
    assert gateway.shake_hands("localhost") == 101
    assert gateway.shake_hands(Origin=gateway.url) == 101
    assert gateway.shake_hands("evil.example") == 421
    assert gateway.shake_hands("evil.example", Origin=f"http://evil.example:{gateway.port}") == 421
    assert gateway.shake_hands(Origin="http://evil.example") == 403
    assert gateway.shake_hands(Origin="null") == 403
    assert gateway.shake_hands(Sec_Fetch_Site="cross-site") == 403


def test_every_answer_says_what_a_browser_may_do_with_it(gateway: Gateway) -> None:
    for path in ROUTES:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            policy = response.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.browser
def test_the_page_works_within_its_policy(chromium: Browser, gateway: Gateway) -> None:
    page = chromium.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(gateway.url)
    expect(page.locator("#result tbody")).to_contain_text(SECRET)
    page.click("#explain")
    expect(page.locator("#plan pre")).to_contain_text("incremental")
    expect(page.locator("#traffic")).to_be_visible()
    page.locator("#rate").fill("50")
    expect(page.locator("#rate-shown")).to_have_text("125 tx/s")
    page.close()
    assert said == []
    gateway.traffic.rate = 8.0


@pytest.mark.browser
def test_an_allowed_origin_connects_and_posts(chromium: Browser, elsewhere: int, tmp_path: Path) -> None:
    origin = f"http://localhost:{elsewhere}"
    with opened(tmp_path, Allowed.of(origins=[origin])) as gateway:
        with page_at(chromium, f"{origin}/") as page:
            shown = page.evaluate(
                """async (gateway) => {
                  const { connect } = await import(`${gateway}/client/headwater.js`);
                  const db = connect(`${gateway.replace("http", "ws")}/v1/ws`);
                  const rows = await new Promise((resolve) => {
                    const onChange = (live) => live.rows.length && resolve(live.rows);
                    db.query("SELECT name FROM t", null, { onChange });
                  });
                  db.close();
                  const headers = { "Content-Type": "application/json" };
                  await fetch(`${gateway}/demo/rate`, { method: "POST", body: '{"rate": 20}', headers });
                  return rows;
                }""",
                gateway.url,
            )
        with page_at(chromium, f"http://127.0.0.1:{elsewhere}/") as page:
            assert page.evaluate(ATTACK, gateway.url)["socket"] == "no: Error", "only the one that was named"
        assert shown == [{"name": SECRET}]
        assert gateway.traffic.rate == 20.0


def test_a_program_is_told_which_name_to_use(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that passes on a name nobody allowed."""

    def by_another_name(address: str, **options: Any) -> Any:
        named = address.replace("127.0.0.1", "live.example.org")
        return connect(named, address=("127.0.0.1", gateway.port), proxy=None, **options)

    monkeypatch.setattr("headwater.client.remote.connect", by_another_name)
    with pytest.raises(headwater.PermissionDenied, match=r"live\.example\.org") as refused:
        headwater.connect(f"ws://127.0.0.1:{gateway.port}")
    assert "--allow-host" in (refused.value.hint or "")


def test_an_allowed_host_is_answered(tmp_path: Path) -> None:
    allowed = Allowed.of(["Live.Example.org", "10.0.0.7:8080"], ["https://live.example.org:443"])
    with opened(tmp_path, allowed) as gateway:
        for host in ("live.example.org", "live.example.org:8080", "10.0.0.7", "[::1]:8080"):
            assert gateway.answer("/v1/position", Host=host)[0] == 200
        assert gateway.answer("/v1/position", Host="live.example.org", Origin="https://live.example.org")[0] == 200
        assert gateway.answer("/v1/position", Origin="https://live.example.org")[0] == 200
        assert gateway.answer("/v1/position", Host="other.example.org")[0] == 421


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--allow-origin", "app.example.org"),
        ("--allow-origin", "*"),
        ("--allow-origin", "null"),
        ("--allow-origin", "https://app.example.org/page"),
        ("--allow-host", "*"),
        ("--allow-host", "https://app.example.org"),
        ("--allow-host", ""),
    ],
)
def test_what_cannot_be_allowed(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--source", "memory://", "--runner", "inline", "--port", "0", option, value]) == 1
    assert f"for example {option}" in capsys.readouterr().err
