"""The browser's connection and live results, in real Chromium, against a socket that the test plays by hand."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SETTING = """
async () => {
  const { connect } = await import("/client/headwater.js");
  class Wire {
    readyState = 0;
    sent = [];
    send(text) { this.sent.push(JSON.parse(text)); }
    close() { this.readyState = 3; this.onclose(); }
    open() {
      this.readyState = 1;
      this.onopen();
      this.say({ type: "welcome", session: "s", protocol: 1, heartbeat_ms: 60000 });
    }
    say(...messages) { for (const message of messages) this.onmessage({ data: JSON.stringify(message) }); }
  }
  const wires = [];
  const db = connect("/v1/ws", { socket: () => (wires.push(new Wire()), wires.at(-1)) });
  const reopened = async () => {
    const count = wires.length;
    while (wires.length === count) await new Promise((resolve) => setTimeout(resolve, 10));
    wires.at(-1).open();
    return wires.at(-1);
  };
  const result = (id, seq, rows) => ({
    type: "result", id, seq, prev: 0, gen: 1, position: seq,
    columns: ["id", "n"], rows, hashes: rows.map(([key]) => `h${key}`),
  });
  const set = (id, seq, prev, key, n) => ({
    type: "diff", id, seq, prev, gen: 1, position: seq,
    changes: [{ type: "update", new: { n }, old_hash: `h${key}`, new_hash: `h${key}` }],
  });
  const wire = wires[0];
  wire.open();
  const log = [];
  BODY
}
"""


def played(page: Page, body: str) -> Any:
    return page.evaluate(SETTING.replace("BODY", body))


def test_a_query_says_hello_subscribes_and_is_ready_with_its_result(page: Page) -> None:
    body = """
      const onChange = () => log.push(live.state, live.rows.length);
      const live = db.query("SELECT 1 WHERE x = ?", [2n ** 60n], { onChange });
      const before = [live.state, live.rows.length];
      wire.say(result("q1", 5, [[1, "a"], [2, "b"]]), { type: "ready", id: "q1", position: 5 });
      return { sent: wire.sent, before, log, rows: live.rows, seq: live.seq, columns: live.columns };
    """
    outcome = played(page, body)
    assert outcome["sent"] == [
        {"type": "hello"},
        {
            "type": "subscribe",
            "id": "q1",
            "mode": "diff",
            "sql": "SELECT 1 WHERE x = ?",
            "params": [{"$int": str(2**60)}],
        },
    ]
    assert outcome["before"] == ["initializing", 0]
    assert outcome["log"] == ["ready", 2]
    assert outcome["rows"] == [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}]
    assert (outcome["seq"], outcome["columns"]) == (5, ["id", "n"])


def test_all_queries_move_to_a_position_together(page: Page) -> None:
    body = """
      const onChange = () => log.push(lives.map((live) => live.rows[0]?.n));
      const lives = ["A", "B"].map((sql) => db.query(sql, null, { onChange }));
      for (const id of ["q1", "q2"]) wire.say(result(id, 5, [[1, 0]]), { type: "ready", id, position: 5 });
      log.length = 0;
      wire.say(set("q1", 6, 5, 1, 6), set("q1", 7, 6, 1, 7), set("q2", 6, 5, 1, 6));
      const held = lives.map((live) => live.rows[0].n);
      wire.say({ type: "progress", position: 6 });
      const six = log.splice(0);
      wire.say({ type: "progress", position: 7 });
      return { held, six, seven: log };
    """
    outcome = played(page, body)
    assert outcome["held"] == [0, 0]
    assert outcome["six"] == [[6, 6], [6, 6]]
    assert outcome["seven"] == [[7, 6]]


def test_rows_are_a_new_list_per_transaction_and_observers_get_one_list_of_operations_each(page: Page) -> None:
    body = """
      const live = db.query("A");
      const stop = live.observe((operations) => log.push(operations));
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      const before = live.rows;
      wire.say(set("q1", 6, 5, 1, 6), set("q1", 7, 6, 1, 7), { type: "progress", position: 9 });
      stop();
      wire.say(set("q1", 8, 7, 1, 8));
      return { log, before, after: live.rows };
    """
    outcome = played(page, body)
    assert outcome["log"] == [
        [{"type": "insert", "index": 0, "row": {"id": 1, "n": 0}}],
        [{"type": "set", "index": 0, "row": {"id": 1, "n": 6}}],
        [{"type": "set", "index": 0, "row": {"id": 1, "n": 7}}],
    ]
    assert outcome["before"] == [{"id": 1, "n": 0}]
    assert outcome["after"] == [{"id": 1, "n": 8}]


def test_a_lost_socket_is_opened_again_and_every_query_resumes(page: Page) -> None:
    body = """
      const states = [];
      db.onState = (state) => states.push(state);
      const live = db.query("A", null, { onChange: () => log.push(live.state) });
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      wire.say(set("q1", 6, 5, 1, "lost with the socket"));
      log.length = 0;
      wire.close();
      const kept = live.rows;
      const second = await reopened();
      second.say(set("q1", 6, 5, 1, 6), { type: "ready", id: "q1", position: 6 });
      return { states, log, kept, rows: live.rows, asked: second.sent.at(-1) };
    """
    outcome = played(page, body)
    assert outcome["states"] == ["reconnecting", "connected"]
    assert outcome["log"] == ["stale", "ready"]
    assert outcome["kept"] == [{"id": 1, "n": 0}]
    assert outcome["rows"] == [{"id": 1, "n": 6}]
    assert outcome["asked"] == {
        "type": "subscribe",
        "id": "q1",
        "mode": "diff",
        "sql": "A",
        "resume_seq": 5,
        "resume_gen": 1,
    }


def test_old_rows_stay_through_a_resync_until_the_fresh_result(page: Page) -> None:
    body = """
      const live = db.query("A", null, { onChange: () => log.push([live.state, live.rows[0].n, live.reason]) });
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      wire.say({ type: "resync", id: "q1", reason: "overflow" }, { type: "progress", position: 8 });
      wire.say(result("q1", 9, [[1, 9]]), { type: "progress", position: 9 });
      return log;
    """
    assert played(page, body) == [["ready", 0, None], ["stale", 0, "overflow"], ["ready", 9, None]]


def test_an_emission_that_does_not_follow_makes_the_client_ask_for_a_fresh_result(page: Page) -> None:
    body = """
      const live = db.query("A", null, { onChange: () => log.push([live.state, live.rows[0].n]) });
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      wire.say(set("q1", 8, 7, 1, 8), { type: "progress", position: 8 });
      const asked = wire.sent.slice(-2);
      wire.say(set("q1", 9, 8, 1, "too late"), result("q2", 3, [[1, 3]]), { type: "ready", id: "q2", position: 8 });
      return { asked, log };
    """
    outcome = played(page, body)
    assert outcome["asked"] == [
        {"type": "unsubscribe", "id": "q1"},
        {"type": "subscribe", "id": "q2", "mode": "diff", "sql": "A"},
    ]
    assert outcome["log"] == [["ready", 0], ["stale", 0], ["ready", 3]]


def test_what_was_applied_already_changes_nothing(page: Page) -> None:
    body = """
      const live = db.query("A", null, { onChange: () => log.push(live.rows[0].n) });
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      wire.say(set("q1", 6, 5, 1, 6), set("q1", 6, 5, 1, "twice"), { type: "progress", position: 6 });
      wire.say(set("q1", 6, 5, 1, "thrice"), { type: "progress", position: 7 });
      return log;
    """
    assert played(page, body) == [0, 6]


def test_refusals_ends_and_aborts_reach_the_one_query_they_are_about(page: Page) -> None:
    body = """
      const told = (name) => ({
        onError: ({ code, message, hint, at }) => log.push([name, code, message, hint, at]),
        onClosed: (reason) => log.push([name, reason]),
      });
      const lives = ["A", "B", "C", "D"].map((name) => db.query(name, null, told(name)));
      for (const id of ["q2", "q3", "q4"]) wire.say(result(id, 5, [[1, 0]]), { type: "ready", id, position: 5 });
      wire.say({ type: "error", id: "q1", code: "sql_error", message: "no such table", hint: "orders?", at: [3, 7] });
      wire.say({ type: "closed", id: "q2", reason: "table dropped" });
      lives[2].abort();
      wire.say({ type: "error", id: "q4", code: "window_error", message: "overflow" });
      wire.say(set("q3", 6, 5, 1, "late"), { type: "progress", position: 6 });
      return { log, states: lives.map((live) => live.state), sent: wire.sent.at(-1), third: lives[2].rows[0].n };
    """
    outcome = played(page, body)
    assert outcome["log"] == [
        ["A", "sql_error", "no such table", "orders?", [3, 7]],
        ["B", "table dropped"],
        ["C", "aborted"],
        ["D", "window_error", "overflow", None, None],
    ]
    assert outcome["states"] == ["closed", "closed", "closed", "stale"]
    assert outcome["sent"] == {"type": "unsubscribe", "id": "q3"}
    assert outcome["third"] == 0


def test_every_message_passes_the_tap(page: Page) -> None:
    body = """
      db.onMessage = (way, { type }) => log.push([way, type]);
      db.query("A").abort();
      wire.say({ type: "progress", position: 1 }, { type: "a word of a newer server" });
      return log;
    """
    assert played(page, body) == [
        ["out", "subscribe"],
        ["out", "unsubscribe"],
        ["in", "progress"],
        ["in", "a word of a newer server"],
    ]


def test_who_waits_for_a_position_asks_for_it_and_asks_again_after_a_reconnect(page: Page) -> None:
    body = """
      const live = db.query("A");
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      const at5 = await db.reach(5);
      const at7 = db.reach(7).then((reached) => { log.push([7, reached, live.rows[0].n]); });
      const at9 = db.reach(9).then((reached) => { log.push([9, reached]); });
      const first = wire.sent.filter(({ type }) => type === "await");
      wire.say(set("q1", 7, 5, 1, "seven"), { type: "progress", position: 8 });
      await at7;
      wire.close();
      const again = await reopened();
      const second = again.sent.filter(({ type }) => type === "await");
      db.close();
      await at9;
      return { at5, log, first, second, after: await db.reach(11) };
    """
    assert played(page, body) == {
        "at5": True,
        "log": [[7, True, "seven"], [9, False]],
        "first": [{"type": "await", "position": 7}, {"type": "await", "position": 9}],
        "second": [{"type": "await", "position": 9}],
        "after": False,
    }


def test_while_the_server_says_that_changes_do_not_come_every_query_is_stale_with_the_reason(page: Page) -> None:
    body = """
      const tell = () => log.push([live.state, live.reason]);
      const live = db.query("A", null, { onChange: tell });
      wire.say(result("q1", 5, [[1, 0]]), { type: "ready", id: "q1", position: 5 });
      wire.say({ type: "health", failure: "the disk is full" });
      wire.say(set("q1", 6, 5, 1, 6), { type: "progress", position: 6 });
      wire.say({ type: "health" });
      wire.say({ type: "error", id: "q1", code: "window_error", message: "no answer" });
      wire.say({ type: "ready", id: "q1", position: 6 });
      wire.say({ type: "health", failure: "the disk is full" });
      wire.close();
      const second = await reopened();
      second.say({ type: "ready", id: "q1", position: 6 });
      return { log, rows: live.rows };
    """
    outcome = played(page, body)
    ready, full = ["ready", None], ["stale", "the disk is full"]
    assert outcome["log"] == [ready, full, full, ready, ["stale", "no answer"], ready, full, full, ready]
    assert outcome["rows"] == [{"id": 1, "n": 6}]
