/**
 * Live SQL in the browser: the twin of the Python client.
 *
 *   import { connect } from "/client/headwater.js";
 *   const db = connect("/v1/ws");
 *   const live = db.query("SELECT id, total FROM orders WHERE user_id = ?", [42], { onChange: () => draw(live.rows) });
 *
 * `rows` is a new array per transaction and never half-applied. All queries of a connection move together: emissions wait
 * until a `progress` at or past their position. A lost socket is opened again and every query resumes where it was.
 * Never renders anything.
 */

import { EMPTY, Resync, apply } from "./apply.js";
import { operations } from "./operations.js";
import { decodeEmission, encodeParams } from "./wire.js";

export { Resync, apply } from "./apply.js";
export { operations } from "./operations.js";
export { Decimal, Json, Literal, decodeEmission, decodeValue, encodeValue, sameValue } from "./wire.js";

export const LIMITS = Object.freeze({
  backoff_ms_min: 250, // the first wait before a socket is opened again; it doubles
  backoff_ms_max: 8_000,
  silence_heartbeats_stale: 3, // heard nothing for so many heartbeats: stale
  silence_heartbeats_lost: 8, // and for so many: the socket is given up
  pending_emissions_max: 10_000, // a query with more waiting for `progress` starts afresh
});

const NO_GENERATION = -1;

export function connect(url, options = {}) {
  return new Connection(url, options);
}

/** What the server said was wrong. `at` is a span of the SQL, in characters; `retry_after_ms`: when to ask again. */
export class HeadwaterError extends Error {
  name = "HeadwaterError";

  constructor({ code, message, hint = null, at = null, retry_after_ms = null }) {
    super(message);
    Object.assign(this, { code, hint, at, retry_after_ms });
  }
}

/** One socket, many live queries. `state`: connecting | connected | stale | reconnecting | closed. */
export class Connection {
  onMessage = null; // (direction: "in" | "out", message): every message as it travels
  onState = null; // (state)
  onError = null; // (HeadwaterError): errors that belong to no query
  state = "connecting";
  session = null;
  position = null; // every query is shown as of here
  failure = null; // why changes do not come just now, as the server says

  #url;
  #token;
  #open;
  #socket = null;
  #lives = new Map();
  #next = 1;
  #retries = 0;
  #retryTimer = 0;
  #pulseTimer = 0;
  #heartbeat_ms = 1_000;
  #heard_ms = 0;
  #awaited = []; // {position, resolve}: whoever waits for a position

  /** `socket` makes the WebSocket, for tests and for other environments. */
  constructor(url, { token = null, socket = (address) => new WebSocket(address) } = {}) {
    this.#url = absolute(url);
    this.#token = token;
    this.#open = socket;
    this.#dial();
  }

  /** A live result, empty until `ready`. `params`: an array for `?` and `$1`, an object for `:name`. */
  query(sql, params = null, { onChange = null, onError = null, onClosed = null } = {}) {
    const live = new LiveResult(this, this.#newId(), { sql, params, onChange, onError, onClosed });
    this.#lives.set(live.id, live);
    if (this.#isWelcome()) this.#subscribe(live);
    return live;
  }

  /** Resolves to true once every query is shown as of `position` or later; to false when the connection is closed first. */
  reach(position) {
    if (this.position !== null && this.position >= position) return Promise.resolve(true);
    if (this.state === "closed") return Promise.resolve(false);
    if (this.#isWelcome()) this.#send({ type: "await", position });
    return new Promise((resolve) => this.#awaited.push({ position, resolve }));
  }

  close() {
    clearTimeout(this.#retryTimer);
    clearInterval(this.#pulseTimer);
    for (const live of [...this.#lives.values()]) this.#end(live, "connection closed");
    for (const { resolve } of this.#awaited.splice(0)) resolve(false);
    this.#setState("closed");
    this.#socket?.close();
  }

  /** Ends one query. Called by `LiveResult.abort`. */
  release(live) {
    if (!this.#lives.has(live.id)) return;
    if (this.#isWelcome()) this.#send({ type: "unsubscribe", id: live.id });
    this.#end(live, "aborted");
  }

  #dial() {
    const socket = this.#open(this.#url);
    this.#socket = socket;
    socket.onopen = () => this.#send(this.#token === null ? { type: "hello" } : { type: "hello", token: this.#token });
    socket.onmessage = (event) => this.#socket === socket && this.#receive(JSON.parse(event.data));
    socket.onclose = () => this.#socket === socket && this.#lost();
  }

  #lost() {
    this.#socket = null;
    this.session = null;
    this.position = null;
    this.failure = null;
    clearInterval(this.#pulseTimer);
    if (this.state === "closed") return;
    for (const live of this.#lives.values()) live.interrupt();
    this.#setState("reconnecting");
    this.#retryTimer = setTimeout(() => this.#dial(), backoff(this.#retries++));
  }

  #receive(message) {
    this.#heard_ms = performance.now();
    this.onMessage?.("in", message);
    if (this.state === "stale") this.#setState("connected");
    const live = message.id === undefined ? null : this.#lives.get(message.id);
    if (live === undefined) return; // a query given up while this was on its way
    switch (message.type) {
      case "welcome": return this.#welcome(message);
      case "subscribed": return live.describe(message);
      case "result": case "diff": case "swap": return this.#hold(live, decodeEmission(message));
      case "ready": return this.#ready(live, message);
      case "progress": return this.#advance(message.position);
      case "health": return this.#heard(message.failure ?? null);
      case "resync": return live.interrupt(message.reason);
      case "error": return this.#fail(live, new HeadwaterError(message));
      case "closed": return this.#end(live, message.reason);
      default: return; // pong, and what a newer server may say
    }
  }

  #welcome({ session, heartbeat_ms = 1_000 }) {
    this.session = session;
    this.#retries = 0;
    this.#heartbeat_ms = heartbeat_ms;
    this.#pulseTimer = setInterval(() => this.#pulse(), heartbeat_ms);
    this.#setState("connected");
    for (const live of this.#lives.values()) this.#subscribe(live);
    if (this.#awaited.length > 0) this.#send({ type: "await", position: Math.max(...this.#awaited.map((one) => one.position)) });
  }

  #subscribe(live) {
    this.#send({ type: "subscribe", id: live.id, mode: "diff", ...live.request() });
  }

  #hold(live, emission) {
    live.pending.push(emission);
    if (live.pending.length > LIMITS.pending_emissions_max) this.#renew(live);
    else if (live.isReady && this.position !== null && emission.position <= this.position) this.#flush([live]);
  }

  #ready(live, { position }) {
    live.isReady = true;
    this.position ??= position;
    this.#flush([live]);
  }

  /** Moves every query to `position` before any of them is told, so that no callback sees two positions. */
  #advance(position) {
    this.position = Math.max(position, this.position ?? position);
    this.#flush([...this.#lives.values()]);
    const reached = this.#awaited.filter((one) => one.position <= this.position);
    this.#awaited = this.#awaited.filter((one) => one.position > this.position);
    for (const { resolve } of reached) resolve(true);
  }

  /** While changes do not come, what was ready is stale, with the reason. */
  #heard(failure) {
    this.failure = failure;
    for (const live of this.#lives.values()) live.weigh();
  }

  #flush(lives) {
    const moved = lives.filter((live) => this.#settle(live));
    for (const live of moved) live.tell();
  }

  #settle(live) {
    try {
      return live.settle(this.position);
    } catch (error) {
      if (!(error instanceof Resync)) throw error;
      this.#renew(live);
      return false;
    }
  }

  /** Asks for a fresh result under a new id; the old rows stay in view until it is here. */
  #renew(live) {
    this.#send({ type: "unsubscribe", id: live.id });
    this.#lives.delete(live.id);
    live.restart(this.#newId());
    this.#lives.set(live.id, live);
    this.#subscribe(live);
  }

  /** A window in error comes back when the row at fault has gone; any other error is a refusal, and the query is over. */
  #fail(live, error) {
    if (live === null) this.onError?.(error);
    else if (error.code === "window_error") live.fail(error);
    else this.#end(live, error.message, () => live.onError?.(error));
  }

  #end(live, reason, tell = () => live.onClosed?.(reason)) {
    this.#lives.delete(live.id);
    live.close();
    tell();
  }

  /** Once a heartbeat: acknowledges what was applied and notices silence. */
  #pulse() {
    const silent = (performance.now() - this.#heard_ms) / this.#heartbeat_ms;
    if (silent > LIMITS.silence_heartbeats_lost) return this.#giveUp();
    if (silent > LIMITS.silence_heartbeats_stale) this.#setState("stale");
    if (silent > 1) this.#send({ type: "ping" });
    for (const live of this.#lives.values()) {
      if (live.isUnacknowledged()) this.#send({ type: "ack", id: live.id, seq: live.acknowledge() });
    }
  }

  /** A dead network may hold back the socket's own `close` for minutes. */
  #giveUp() {
    const socket = this.#socket;
    this.#lost();
    socket?.close();
  }

  #send(message) {
    if (this.#socket?.readyState !== 1) return;
    this.onMessage?.("out", message);
    this.#socket.send(JSON.stringify(message));
  }

  #isWelcome() {
    return this.session !== null;
  }

  #newId() {
    return `q${this.#next++}`;
  }

  #setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.onState?.(state);
  }
}

/** The rows of one query, kept current. `state`: initializing | ready | stale | closed. */
export class LiveResult {
  state = "initializing";
  types = []; // [{name, type}] as the server described the columns
  key = [];
  ordered = false;
  strategy = null;
  pending = []; // emissions that wait for `progress`
  isReady = false;
  reason = null; // why it is stale, where the server said

  #connection;
  #held = EMPTY;
  #acknowledged = 0;
  #observers = new Set();

  constructor(connection, id, { sql, params, onChange, onError, onClosed }) {
    this.#connection = connection;
    Object.assign(this, { id, sql, params, onChange, onError, onClosed });
  }

  get rows() { return this.#held.rows; }
  get hashes() { return this.#held.hashes; }
  get columns() { return this.#held.columns; }
  get seq() { return this.#held.seq; }
  get gen() { return this.#held.gen; }
  get position() { return this.#held.position; }

  /** Calls back with one list of operations (see operations.js) and its emission per transaction. Returns a function that stops it. */
  observe(callback) {
    this.#observers.add(callback);
    return () => this.#observers.delete(callback);
  }

  abort() {
    this.#connection.release(this);
  }

  // What follows is called by the connection alone.

  request() {
    const params = this.params === null ? {} : { params: encodeParams(this.params) };
    const resume = this.seq > 0 ? { resume_seq: this.seq, resume_gen: this.gen } : {};
    return { sql: this.sql, ...params, ...resume };
  }

  describe({ columns, key, ordered, strategy }) {
    Object.assign(this, { types: columns ?? [], key: key ?? [], ordered: ordered ?? false, strategy: strategy ?? null });
  }

  /** Applies what waits at or before `position`; says whether anything is to be told. */
  settle(position) {
    const [before, state] = [this.#held, this.state];
    while (this.pending.length > 0 && this.pending[0].position <= position) this.#take(this.pending.shift());
    if (this.isReady) this.#become();
    return this.#held !== before || this.state !== state;
  }

  tell() {
    this.onChange?.(this);
  }

  /** The server has said how it is. */
  weigh() {
    const [state, reason] = [this.state, this.reason];
    if (this.isReady) this.#become();
    if (this.state !== state || this.reason !== reason) this.tell();
  }

  /** Ready; or stale, while nothing could change what is shown. */
  #become() {
    const failure = this.#connection.failure;
    Object.assign(this, { state: failure === null ? "ready" : "stale", reason: failure });
  }

  /** The thread is lost: what is shown stays until it is taken up again or a fresh result is here. */
  interrupt(reason = null) {
    this.pending = [];
    this.isReady = false;
    this.reason = reason ?? this.reason;
    if (this.state === "ready") this.state = "stale";
    this.tell();
  }

  /** The database would raise for this query just now, or does not answer it: what is shown is what was right before. */
  fail(error) {
    Object.assign(this, { isReady: false, reason: error.message });
    if (this.state === "ready") this.state = "stale";
    this.tell();
    this.onError?.(error);
  }

  /** What came does not follow from what is held: nothing but a result will do. */
  restart(id) {
    this.id = id;
    this.#held = { ...this.#held, seq: 0, gen: NO_GENERATION };
    this.#acknowledged = 0;
    this.interrupt();
  }

  close() {
    this.pending = [];
    this.state = "closed";
  }

  isUnacknowledged() {
    return this.seq > this.#acknowledged;
  }

  acknowledge() {
    this.#acknowledged = this.seq;
    return this.seq;
  }

  #take(emission) {
    const before = this.#held;
    if (emission.type === "result") this.isReady = true;
    else if (before.gen === NO_GENERATION) return;
    const after = apply(before, emission);
    this.#held = after;
    if (this.#observers.size === 0 || before === after) return;
    const steps = operations(before, after, emission);
    if (steps.length > 0) for (const callback of this.#observers) callback(steps, emission);
  }
}

function backoff(retries) {
  const longest = Math.min(LIMITS.backoff_ms_max, LIMITS.backoff_ms_min * 2 ** retries);
  return longest * (0.5 + Math.random() / 2); // many clients must not come back at once
}

function absolute(url) {
  const address = new URL(url, globalThis.location?.href);
  address.protocol = address.protocol.replace(/^http/, "ws");
  return address.href;
}
