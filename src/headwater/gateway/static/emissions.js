/** The emissions panel: every message of the socket, newest on top. Holds a bounded number; draws once a frame. */

const MESSAGES_MAX = 150;
const LINES_MAX = 8;
const LINE_CHARACTERS_MAX = 160;
const DRAW_MS_MIN = 100; // between two drawings: nobody reads faster
const HEARTBEATS = new Set(["progress", "ping", "pong", "ack"]);
const SIGNS = { insert: "+", update: "~", delete: "−" };

const SHAPE = document.createElement("template");
SHAPE.innerHTML = `<li><details><summary><span class="arrow"></span><b></b><span class="of"></span><time></time></summary>
  <pre></pre></details><pre class="brief"></pre></li>`;

export class EmissionsPanel {
  #list;
  #waiting = [];
  #frame = 0;
  #drawn_ms = -Infinity;
  #isPaused = false;
  #withHeartbeats = false;

  constructor(list, pause, heartbeats) {
    this.#list = list;
    pause.onclick = () => {
      this.#isPaused = !this.#isPaused;
      pause.setAttribute("aria-pressed", String(this.#isPaused));
      pause.textContent = this.#isPaused ? "Resume" : "Pause";
      this.#ask();
    };
    heartbeats.onchange = () => (this.#withHeartbeats = heartbeats.checked);
  }

  /** While paused, what comes is kept, as far as it fits. */
  add(way, message) {
    if (!this.#withHeartbeats && HEARTBEATS.has(message.type)) return;
    this.#waiting.push({ way, message, at: new Date() });
    if (this.#waiting.length > MESSAGES_MAX) this.#waiting.shift();
    this.#ask();
  }

  #ask() {
    if (!this.#isPaused) this.#frame ||= requestAnimationFrame((now) => this.#draw(now));
  }

  #draw(now) {
    this.#frame = 0;
    if (now - this.#drawn_ms < DRAW_MS_MIN) return this.#ask();
    this.#drawn_ms = now;
    this.#list.prepend(...this.#waiting.reverse().map(item));
    this.#waiting = [];
    while (this.#list.children.length > MESSAGES_MAX) this.#list.lastElementChild.remove();
  }
}

function item({ way, message, at }) {
  const item = SHAPE.content.firstElementChild.cloneNode(true);
  item.dataset.type = message.type;
  const [details, brief] = item.children;
  details.querySelector(".arrow").textContent = way === "in" ? "↓" : "↑";
  details.querySelector("b").textContent = message.type;
  details.querySelector(".of").textContent = origin(message);
  details.querySelector("time").textContent = at.toTimeString().slice(0, 8) + "." + String(at.getMilliseconds()).padStart(3, "0");
  details.ontoggle = () => (details.lastElementChild.textContent = details.open ? JSON.stringify(message, null, 2) : "");
  brief.append(...bounded(lines(message)));
  return item;
}

function origin({ id, seq }) {
  return [id, seq === undefined ? null : `seq ${seq}`].filter(Boolean).join(" · ");
}

function lines(message) {
  switch (message.type) {
    case "diff": return message.changes.map((change) => line(changeText(change), change.type));
    case "result": return [line(`${message.rows.length} rows × ${message.columns.length} columns`)];
    case "swap": return [line(message.pairs.map(([a, b]) => `${a} ⇄ ${b}`).join("  "))];
    case "subscribe": return [line(message.sql.replace(/\s+/g, " "))];
    case "subscribed": return [line(`${message.strategy ?? ""} ${(message.columns ?? []).map(({ name }) => name).join(", ")}`.trim())];
    case "error": return [line(message.message), ...(message.hint ? [line(message.hint)] : [])];
    default: return [line(JSON.stringify(rest(message)))].filter((shown) => shown.textContent !== "{}");
  }
}

/** `~ 3→0 {"total":9}`: what happened, where, to which columns. A row of no place and no columns is named by its hash. */
function changeText({ type, new: fields, index, old_index, old_hash }) {
  const isMoved = type === "update" && index !== old_index;
  const place = isMoved ? `${old_index}→${index}` : (index ?? old_index);
  const what = fields ? JSON.stringify(fields) : place === undefined ? old_hash : null;
  return [SIGNS[type], place, what].filter((part) => part !== undefined && part !== null).join(" ");
}

function rest({ type: _type, id: _id, seq: _seq, prev: _prev, ...others }) {
  return others;
}

function bounded(lines) {
  if (lines.length <= LINES_MAX) return lines;
  return [...lines.slice(0, LINES_MAX), line(`… ${lines.length - LINES_MAX} more`)];
}

function line(text, kind = "") {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text.length > LINE_CHARACTERS_MAX ? `${text.slice(0, LINE_CHARACTERS_MAX)}…` : text;
  return span;
}
