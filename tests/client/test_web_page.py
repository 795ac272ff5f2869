"""The page in real Chromium, against a server that the test plays by hand: what the socket says is what is seen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect

pytestmark = pytest.mark.browser

INDEX = Path(__file__).parents[2] / "src/headwater/gateway/static/index.html"
STATUS = {"runner": "spark", "cells": [{"cell": 0, "epoch": 3, "lag_ms": 1.5}], "epoch": 3, "transactions": 7}
EXAMPLES = [
    {"title": "All", "sql": "SELECT * FROM orders"},
    {"title": "One", "sql": "SELECT 1 WHERE a = ?", "params": [1]},
]

WATCH_FLASHES = """
() => {
  window.flashed = [];
  const note = ({ target }) => target.classList.contains("flash") && flashed.push(name(target));
  const name = (cell) => `${cell.closest("tr").dataset.hash} ${cell.dataset.col}`;
  const seen = { subtree: true, attributeFilter: ["class"] };
  new MutationObserver((changes) => changes.forEach(note)).observe(document.querySelector("#result"), seen);
}
"""  # a flash is over soon: whoever looks may be too late


class Stage:
    """The page and the server's end of its socket."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.heard: list[dict[str, Any]] = []
        self.explained: dict[str, Any] = {"text": "incremental"}
        self._socket: WebSocketRoute | None = None
        page.route_web_socket(re.compile("/v1/ws$"), self._open)
        page.route(re.compile("/(v1|demo)/(status|explain|queries|rate)"), self._answer)

    def say(self, *messages: dict[str, Any]) -> None:
        assert self._socket is not None
        for message in messages:
            self._socket.send(json.dumps(message))

    def run(self, sql: str) -> str:
        """The id of the subscription."""
        self.page.fill("#sql", sql)
        self.page.press("#sql", "Control+Enter")
        while not (self.heard and self.heard[-1].get("sql") == sql):
            self.page.wait_for_timeout(5)
        return str(self.heard[-1]["id"])

    def show(self, rows: list[list[Any]], seq: int = 1) -> str:
        """A query with these rows, keyed by the first column."""
        id = self.result(rows, seq)
        expect(self.page.locator("#result tbody tr[data-hash]")).to_have_count(min(len(rows), 500))
        return id

    def result(self, rows: list[list[Any]], seq: int = 1) -> str:
        id = self.run("SELECT id, name, price FROM t")
        columns = [
            {"name": "id", "type": "integer"},
            {"name": "name", "type": "text"},
            {"name": "price", "type": "real"},
        ]
        head = {"id": id, "seq": seq, "prev": 0, "gen": 1, "position": seq}
        hashes = [f"h{row[0]}" for row in rows]
        self.say(
            {
                "type": "subscribed",
                "id": id,
                "columns": columns,
                "key": ["id"],
                "strategy": "incremental",
                "ordered": True,
            },
            {"type": "result", **head, "rows": rows, "hashes": hashes, "columns": ["id", "name", "price"]},
            {"type": "ready", "id": id, "position": seq},
        )
        return id

    def tick_until(self, facts: str) -> None:
        """Frame by frame, by the page's clock, until it shows this."""
        while facts not in self.page.locator("#facts").inner_text():
            self.page.clock.run_for(17)

    def diff(self, id: str, seq: int, *changes: dict[str, Any]) -> None:
        head = {"id": id, "seq": seq, "prev": seq - 1, "gen": 1, "position": seq}
        self.say({"type": "diff", **head, "changes": changes}, {"type": "progress", "position": seq})

    def cell(self, hash: str, column: str) -> Any:
        return self.page.locator(f'#result tr[data-hash="{hash}"] td[data-col="{column}"]')

    def order(self) -> list[str | None]:
        return [row.get_attribute("data-hash") for row in self.page.locator("#result tbody tr").all()]

    def _open(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.on_message(self._hear)

    def _hear(self, text: str | bytes) -> None:
        message = json.loads(text)
        self.heard.append(message)
        if message["type"] == "hello":
            self.say({"type": "welcome", "session": "s", "protocol": 1, "heartbeat_ms": 60_000})

    def _answer(self, route: Route) -> None:
        answers = {"status": STATUS, "explain": self.explained, "queries": EXAMPLES, "rate": {"rate": 8}}
        name = route.request.url.partition("?")[0].rpartition("/")[2]
        route.fulfill(json=answers[name])


@pytest.fixture
def stage(chromium: Browser, files_url: str) -> Iterator[Stage]:
    page = chromium.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.route(f"{files_url}/", lambda route: route.fulfill(path=INDEX, content_type="text/html"))
    stage = Stage(page)
    page.goto(f"{files_url}/")
    expect(page.locator("#status")).to_have_text("connected")
    expect(page.locator("#examples button")).to_have_count(len(EXAMPLES))
    yield stage
    page.close()
    assert problems == []


def test_a_changed_cell_shows_the_new_value_and_flashes(stage: Stage) -> None:
    id = stage.show([[1, "kettle", 48.5], [2, "mug", 14.0]])
    expect(stage.cell("h2", "price")).to_have_text("14.0")
    stage.page.evaluate(WATCH_FLASHES)
    stage.diff(
        id,
        2,
        {"type": "update", "new": {"price": 15.25}, "old_hash": "h2", "new_hash": "h2", "old_index": 1, "index": 1},
    )
    expect(stage.cell("h2", "price")).to_have_text("15.25")
    expect(stage.page.locator("#result td.flash")).to_have_count(0)
    assert set(stage.page.evaluate("flashed")) == {"h2 price"}


def test_rows_come_go_move_and_change_their_key_in_order(stage: Stage) -> None:
    id = stage.show([[1, "a", 1.0], [2, "b", 2.0], [3, "c", 3.0], [4, "d", 4.0]])
    stage.page.locator('#result tr[data-hash="h4"]').evaluate("element => { element.mark = 'the same element' }")
    stage.diff(
        id,
        2,
        {"type": "delete", "old_hash": "h2", "old_index": 1},
        {"type": "insert", "new": {"id": 5, "name": "e", "price": 5.0}, "new_hash": "h5", "index": 1},
        {"type": "update", "new": {"id": 9}, "old_hash": "h4", "new_hash": "h9", "old_index": 3, "index": 0},
    )
    expect(stage.page.locator("#result tr[data-hash=h9]")).to_have_count(1)
    assert stage.order() == ["h9", "h5", "h1", "h3"]
    assert stage.page.locator("#result tr[data-hash=h9]").evaluate("element => element.mark") == "the same element"


def test_a_burst_of_emissions_ends_in_the_last_state(stage: Stage) -> None:
    id = stage.show([[key, f"n{key}", 0.5] for key in range(30)])
    for seq in range(2, 302):
        old = (seq * 7) % 30
        stage.diff(
            id,
            seq,
            {
                "type": "update",
                "new": {"price": seq + 0.5},
                "old_hash": f"h{old}",
                "new_hash": f"h{old}",
                "old_index": old,
                "index": old,
            },
        )
    expect(stage.page.locator("#facts")).to_contain_text("seq 301")
    last = {(seq * 7) % 30: seq + 0.5 for seq in range(2, 302)}
    assert stage.page.locator('#result td[data-col="price"]').all_text_contents() == [
        str(last[key]) for key in range(30)
    ]


def turned_over(seq: int) -> list[dict[str, Any]]:
    """One row comes on top, the last of fifteen goes."""
    return [
        {"type": "insert", "new": {"id": seq, "name": "new", "price": 1.0}, "new_hash": f"h{seq}", "index": 0},
        {"type": "delete", "old_hash": f"h{seq - 15}", "old_index": 14},
    ]


SEEN = """() => ({
  rows: document.querySelectorAll("#result tbody tr").length,
  ghosts: document.querySelectorAll("#ghosts table").length,
  lit: document.querySelectorAll("#result .fresh, #result .flash").length,
  moving: document.querySelector("#stage").getAnimations({ subtree: true }).length,
})"""


def test_under_fast_traffic_there_is_nothing_but_the_rows(stage: Stage) -> None:
    """The page's clock is ours: sixty changes, one a frame."""
    stage.page.clock.install(time=0)
    stage.page.reload()
    expect(stage.page.locator("#status")).to_have_text("connected")
    stage.page.clock.pause_at(120)  # seconds; well before the silence counts as a lost connection
    id = stage.result([[key, "old", 1.0] for key in range(15, 0, -1)], seq=15)
    stage.tick_until("seq 15")
    seen = []
    for seq in range(16, 76):
        stage.diff(id, seq, *turned_over(seq))
        stage.tick_until(f"seq {seq}")
        seen.append(stage.page.evaluate(SEEN))
    assert all(one["rows"] == 15 and one["ghosts"] <= 1 for one in seen), "never two changes over each other"
    assert seen[10:] == [{"rows": 15, "ghosts": 0, "lit": 0, "moving": 0}] * 50
    stage.page.clock.run_for(1_500)
    stage.diff(id, 76, *turned_over(76))
    stage.tick_until("seq 76")
    after = stage.page.evaluate(SEEN)
    assert (after["rows"], after["lit"]) == (15, 1), "what comes after a quiet moment is shown coming"


def test_after_a_burst_no_row_is_left_that_has_gone(stage: Stage) -> None:
    """As fast as the socket takes them: whatever was under way when they came, it ends."""
    id = stage.show([[key, "old", 1.0] for key in range(15, 0, -1)], seq=15)
    for seq in range(16, 316):
        stage.diff(id, seq, *turned_over(seq))
    expect(stage.page.locator("#facts")).to_contain_text("seq 315")
    expect(stage.page.locator("#ghosts table")).to_have_count(0)
    expect(stage.page.locator("#result tbody tr.fresh")).to_have_count(0)
    assert stage.order() == [f"h{seq}" for seq in range(315, 300, -1)]


SLOW_FRAMES = """() => {
  const frame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => frame((now) => call(now * 4));
  window.moved = 0;
  Element.prototype.animate = () => (moved += 1, {});
}"""  # each takes four times as long, by the page's clock


def test_on_a_page_whose_frames_take_long_rows_come_and_go_without_motion(stage: Stage) -> None:
    stage.page.clock.install(time=0)
    stage.page.reload()
    expect(stage.page.locator("#status")).to_have_text("connected")
    stage.page.clock.pause_at(120)
    id = stage.result([[key, "old", 1.0] for key in range(15, 0, -1)], seq=15)
    stage.tick_until("seq 15")
    stage.page.evaluate(SLOW_FRAMES)
    moved = []
    for seq in range(16, 20):
        stage.diff(id, seq, *turned_over(seq))
        stage.tick_until(f"seq {seq}")
        stage.page.clock.run_for(34)
        moved.append(stage.page.evaluate("moved"))
    assert moved[0] > 0, "it is slow once a frame was"
    assert moved == [moved[0]] * 4
    assert stage.page.evaluate(SEEN)["rows"] == 15


def test_a_frame_that_takes_too_long_leaves_no_time_for_motion(stage: Stage) -> None:
    found = stage.page.evaluate("""async () => {
      const { FrameBudget } = await import("/static/budget.js");
      let next = null;
      window.requestAnimationFrame = (call) => (next = call);
      const [quick, slow] = [new FrameBudget(), new FrameBudget()];
      quick.note(1_000);
      next(1_016);
      slow.note(1_000);
      next(1_050);
      return [quick.isSlow(1_016), slow.isSlow(1_050), slow.isSlow(2_040), slow.isSlow(2_051), slow.isCrowded(1_050)];
    }""")
    assert found == [False, True, True, False, False]


def test_values_of_every_type_are_told_apart(stage: Stage) -> None:
    stage.show(
        [[{"$int": "9007199254740993"}, None, {"$float": "-inf"}], [2, "NULL", 1e-7], [3, {"$bytes": "AP8="}, -0.5]]
    )
    expect(stage.cell("h2", "name")).not_to_have_class(re.compile("null"))
    texts = stage.page.locator("#result td").all_text_contents()
    assert texts == ["9007199254740993", "NULL", "-Infinity", "2", "NULL", "1e-7", "3", "x'00ff'", "-0.5"]
    expect(stage.page.locator("#result td.null")).to_have_count(1)


def test_rows_that_may_be_old_are_called_so_with_the_reason(stage: Stage) -> None:
    stage.show([[1, "kettle", 48.5]])
    expect(stage.page.locator("#live")).to_have_text("live")
    stage.say({"type": "health", "failure": "the disk is full"})
    expect(stage.page.locator("#live")).to_have_text("stale")
    expect(stage.page.locator("#note")).to_have_text("These rows may be old: the disk is full.")
    stage.say({"type": "health"})
    expect(stage.page.locator("#live")).to_have_text("live")
    expect(stage.page.locator("#note")).to_have_text("")


def test_a_large_result_shows_its_first_rows_and_says_so(stage: Stage) -> None:
    stage.show([[key, "x", 1.0] for key in range(1_200)])
    expect(stage.page.locator("#note")).to_have_text("The first 500 of 1,200 rows are shown; all are kept current.")
    expect(stage.page.locator("#facts")).to_contain_text("1,200 rows")


def test_an_error_shows_message_hint_and_place_and_goes_when_the_sql_is_edited(stage: Stage) -> None:
    id = stage.run("SELECT '🌊', nmae FROM t")
    stage.say(
        {
            "type": "error",
            "id": id,
            "code": "sql_error",
            "message": "no column nmae",
            "hint": "did you mean name?",
            "at": [12, 16],
        }
    )
    problem = stage.page.locator("#problem")
    expect(problem).to_contain_text("no column nmae")
    expect(problem).to_contain_text("did you mean name?")
    expect(stage.page.locator("#note")).to_have_text("")
    expect(stage.page.locator(".fault")).to_have_text("nmae")
    stage.page.type("#sql", " ")
    expect(problem).to_be_hidden()
    expect(stage.page.locator(".fault")).to_have_count(0)


def test_nothing_in_a_value_or_a_message_becomes_markup(stage: Stage) -> None:
    stage.show([[1, "<img src=x onerror=alert(1)>", 1.0]])
    expect(stage.cell("h1", "name")).to_have_text("<img src=x onerror=alert(1)>")
    id = stage.run("SELECT '<b>bold</b>'")
    stage.say({"type": "error", "id": id, "code": "x", "message": "<i>slanted</i>"})
    expect(stage.page.locator("#problem")).to_contain_text("<i>slanted</i>")
    assert stage.page.locator("#result img, #mirror b, #emissions i, #problem i").count() == 0


def test_the_emissions_panel_is_newest_first_bounded_and_pausable(stage: Stage) -> None:
    id = stage.show([[1, "a", 1.0]])
    change = {"type": "update", "new": {"name": "b"}, "old_hash": "h1", "new_hash": "h1"}
    for seq in range(2, 252):
        stage.diff(id, seq, change)
    newest = stage.page.locator("#emissions li").first
    expect(newest).to_contain_text("seq 251")
    expect(newest).to_contain_text('~ {"name":"b"}')
    assert stage.page.locator("#emissions li").count() == 150
    expect(stage.page.locator("#emissions li[data-type=progress]")).to_have_count(0)
    stage.page.click("#pause")
    stage.diff(id, 252, change)
    expect(stage.page.locator("#facts")).to_contain_text("seq 252")
    expect(newest).to_contain_text("seq 251")
    stage.page.click("#pause")
    expect(newest).to_contain_text("seq 252")


def test_the_pipeline_panel_names_the_runner_and_does_without_missing_fields(stage: Stage) -> None:
    expect(stage.page.locator("#runner")).to_have_text("runner: spark")
    expect(stage.page.locator("#cells tbody tr")).to_have_count(1)
    expect(stage.page.locator("#cells")).to_contain_text("1.5 ms")
    expect(stage.page.locator("#pipeline-facts")).to_contain_text("–")


def test_an_example_runs_at_a_click_with_its_parameters(stage: Stage) -> None:
    stage.page.click("text=One")
    expect(stage.page.locator("#params")).to_have_value("[1]")
    expect(stage.page.locator("#examples button").nth(1)).to_have_attribute("aria-pressed", "true")
    while stage.heard[-1].get("params") != [1]:
        stage.page.wait_for_timeout(5)


def test_a_link_fills_the_editor_and_runs_nothing(stage: Stage) -> None:
    """Anyone can write a link, and a query may be dear."""
    stage.run("SELECT id FROM t WHERE name = :name AND price > :least")
    stage.page.fill("#params", '{"name": "mug & cup", "least": 2}')
    stage.page.click("#run")
    while stage.heard[-1].get("params") != {"name": "mug & cup", "least": 2}:
        stage.page.wait_for_timeout(5)
    asked = stage.heard[-1]
    stage.heard.clear()
    stage.page.reload()
    expect(stage.page.locator("#status")).to_have_text("connected")
    expect(stage.page.locator("#note")).to_contain_text("came with the link")
    expect(stage.page.locator("#sql")).to_have_value(asked["sql"])
    expect(stage.page.locator("#params")).to_have_value('{"name": "mug & cup", "least": 2}')
    assert [message["type"] for message in stage.heard] == ["hello"]
    stage.page.click("#run")
    while len(stage.heard) < 2:
        stage.page.wait_for_timeout(5)
    assert (stage.heard[1]["sql"], stage.heard[1]["params"]) == (asked["sql"], asked["params"])


def test_explain_shows_the_plan_or_why_there_is_none(stage: Stage) -> None:
    stage.page.click("#explain")
    expect(stage.page.locator("#plan pre")).to_have_text("incremental")
    stage.explained = {"error": {"code": "unsupported_query", "message": "no joins yet", "at": [0, 6]}}
    stage.page.click("#explain")
    expect(stage.page.locator("#problem")).to_contain_text("no joins yet")
    expect(stage.page.locator("#plan")).to_be_hidden()


def test_a_narrow_screen_never_scrolls_sideways(stage: Stage) -> None:
    stage.page.set_viewport_size({"width": 375, "height": 812})
    stage.show([[1, "a name that is really rather long for a phone, and goes on", 1.0]])
    assert stage.page.evaluate("document.documentElement.scrollWidth") == 375


def test_the_theme_follows_the_system_until_the_reader_chooses(stage: Stage) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    stage.page.emulate_media(color_scheme="light")
    light = stage.page.evaluate(ground)
    stage.page.emulate_media(color_scheme="dark")
    assert stage.page.evaluate(ground) != light
    stage.page.click("#theme")
    assert stage.page.evaluate(ground) == light
