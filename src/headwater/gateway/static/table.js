/**
 * The result as a table that stays current. Draws once a frame whatever came since: rows keep their element through
 * updates, key changes and moves. Never talks to the server.
 */

import { sameValue } from "/client/headwater.js";
import { longestRise, renames } from "/client/operations.js";
import { FrameBudget } from "/static/budget.js";
import { arrive, glide, isWelcome, leave, places, settleAll } from "/static/motion.js";
import { decimals, isNumber, isNumericType, shown } from "/static/value.js";

const ROWS_MAX = 500;
const DECIMALS_MAX = 8;

export class TableView {
  #table;
  #ghosts;
  #live = null;
  #columns = []; // [{name, type, decimals, isWider, width}]
  #entries = new Map(); // hash → {element, hash, row}
  #order = []; // entries as they stand in the table
  #frame = 0;
  #isFirst = true;
  #stop = null;
  #budget = new FrameBudget();
  #isStill = false; // rows are drawn, and nothing moves or lights up
  #isSlow = false; // nothing moves

  /** `onDrawn(live, shown)` is told after each drawing. */
  constructor(table, ghosts, onDrawn) {
    this.#table = table;
    this.#ghosts = ghosts;
    this.onDrawn = onDrawn;
    this.#body.addEventListener("animationend", settle);
  }

  show(live) {
    this.#stop?.();
    this.#live = live;
    this.#isFirst = true;
    this.#stop = live.observe((_, emission) => this.#follow(renames(emission)));
  }

  /** Draws in the next frame; asking more often changes nothing. */
  draw() {
    this.#frame ||= requestAnimationFrame((now) => this.#draw(now));
  }

  get #body() {
    return this.#table.tBodies[0];
  }

  /** A row that got another hash keeps its element. */
  #follow(renamed) {
    const moves = [...renamed].filter(([now, before]) => now !== before && this.#entries.has(before));
    const moved = moves.map(([now, before]) => [now, this.#entries.get(before)]);
    for (const [, before] of moves) this.#entries.delete(before);
    for (const [now, entry] of moved) this.#entries.set(now, entry);
  }

  #draw(now) {
    this.#frame = 0;
    this.#pace(now);
    const { rows, hashes } = this.#live;
    if (this.#live.columns.length === 0) return this.onDrawn(this.#live, 0);
    if (this.#isFirst || !this.#hasColumns(this.#live.columns)) this.#begin();
    const shownHashes = hashes.slice(0, ROWS_MAX);
    const before = this.#order;
    const after = shownHashes.map((hash) => this.#entries.get(hash) ?? this.#newEntry(hash));
    if (isSameOrder(before, after)) this.#fill(rows);
    else this.#rearrange(before, after, rows);
    this.#entries = new Map(after.map((entry) => [entry.hash, entry]));
    this.#isFirst = false;
    this.onDrawn(this.#live, after.length);
  }

  /** Once per drawing: is there time for motion? What is still under way when there is none ends at once. */
  #pace(now) {
    const wasStill = this.#isStill;
    this.#budget.note(now);
    this.#isStill = this.#budget.isCrowded(now);
    this.#isSlow = this.#budget.isSlow(now);
    this.#ghosts.replaceChildren(); // of the change before: never two generations of rows over each other
    if (!this.#isStill || wasStill) return;
    for (const marked of this.#body.querySelectorAll(".fresh, .flash")) marked.classList.remove("fresh", "flash");
    settleAll(this.#body.rows, this.#ghosts);
  }

  #rearrange(before, after, rows) {
    const staying = new Set(after);
    const leaving = before.filter((entry) => !staying.has(entry));
    const coming = after.filter((entry) => !entry.element.isConnected);
    const moves = !this.#isFirst && !this.#isStill && !this.#isSlow && isWelcome(leaving.length + coming.length);
    const movable = moves ? before.filter((entry) => staying.has(entry)).map(({ element }) => element) : [];
    const tops = places(movable, this.#table.parentElement);
    if (moves) for (const { element } of leaving) leave(element, this.#ghosts);
    for (const { element } of leaving) element.remove();
    this.#place(before, after);
    this.#order = after;
    this.#fill(rows);
    if (!this.#isStill) this.#holdWidths();
    glide(tops);
    if (this.#isFirst || this.#isStill) return;
    for (const { element } of coming) element.classList.add("fresh");
    if (moves) for (const { element } of coming) arrive(element);
  }

  /** Moves as few elements as can be: one that is moved loses its running animations. */
  #place(before, after) {
    const places = new Map(before.map((entry, place) => [entry, place]));
    const kept = longestRise(after.map((entry) => places.get(entry) ?? -1));
    let next = null;
    for (let place = after.length - 1; place >= 0; place--) {
      const { element } = after[place];
      if (!kept.has(place) || !element.isConnected) this.#body.insertBefore(element, next);
      next = element;
    }
  }

  #fill(rows) {
    const hashes = this.#live.hashes;
    this.#order.forEach((entry, place) => {
      if (entry.hash !== hashes[place] || !entry.element.dataset.hash) {
        entry.hash = hashes[place];
        entry.element.dataset.hash = entry.hash;
      }
      if (entry.row !== rows[place]) this.#write(entry, rows[place]);
    });
    this.#columns.forEach((column, at) => {
      if (column.isWider) for (const { element } of this.#order) alignPoint(element.cells[at], column);
      column.isWider = false;
    });
  }

  #write(entry, row) {
    this.#columns.forEach((column, at) => {
      const value = row[column.name];
      if (entry.row !== null && sameValue(entry.row[column.name], value)) return;
      const cell = entry.element.cells[at];
      writeCell(cell, value, column);
      if (entry.row !== null && !this.#isStill) flash(cell);
    });
    entry.row = row;
  }

  #newEntry(hash) {
    const element = document.createElement("tr");
    for (const column of this.#columns) {
      const cell = element.insertCell();
      cell.dataset.col = column.name;
    }
    const entry = { element, hash, row: null };
    this.#entries.set(hash, entry);
    return entry;
  }

  #hasColumns(names) {
    return names.length === this.#columns.length && names.every((name, at) => name === this.#columns[at].name);
  }

  #begin() {
    this.#isFirst = true;
    const types = new Map(this.#live.types.map(({ name, type }) => [name, type]));
    this.#columns = this.#live.columns.map((name) => ({ name, type: types.get(name), decimals: 0, isWider: false, width: 0 }));
    this.#entries.clear();
    this.#order = [];
    this.#body.replaceChildren();
    this.#ghosts.replaceChildren();
    this.#table.tHead.replaceChildren(headRow(this.#columns));
    this.#table.parentElement.hidden = false;
  }

  /** Columns grow but do not shrink under the reader's eyes. */
  #holdWidths() {
    const heads = [...this.#table.tHead.rows[0].cells];
    const widths = heads.map((head) => head.offsetWidth);
    heads.forEach((head, at) => {
      const column = this.#columns[at];
      const room = this.#table.parentElement.clientWidth / heads.length; // a wide table does not need it
      if (widths[at] > column.width && column.width < room) head.style.minWidth = `${(column.width = Math.min(widths[at], room))}px`;
    });
  }
}

function headRow(columns) {
  const row = document.createElement("tr");
  for (const { name, type } of columns) {
    const head = document.createElement("th");
    head.scope = "col";
    head.textContent = name;
    head.title = type ?? "";
    head.classList.toggle("n", isNumericType(type));
    row.append(head);
  }
  return row;
}

function writeCell(cell, value, column) {
  const { text, kind } = shown(value, column.type);
  cell.textContent = text;
  cell.className = kind;
  cell.title = text.length > 40 ? text : "";
  if (!isNumericType(column.type) && !isNumber(value)) return;
  cell.classList.add("n");
  if (column.type !== "real") return;
  column.isWider ||= decimals(text) > column.decimals;
  column.decimals = Math.min(DECIMALS_MAX, Math.max(column.decimals, decimals(text)));
  alignPoint(cell, column);
}

/** Points stand under each other: what is missing behind this one is added unseen. */
function alignPoint(cell, column) {
  const missing = column.decimals - decimals(cell.textContent);
  cell.dataset.pad = decimals(cell.textContent) > 0 && missing > 0 ? "0".repeat(missing) : "";
}

/** What has been seen need not be marked: an element that is moved would show it again. */
function settle({ target, animationName }) {
  if (animationName === "fresh") target.classList.remove("fresh");
  else target.classList.remove("flash");
}

function flash(cell) {
  cell.dataset.beat = cell.dataset.beat === "0" ? "1" : "0";
  cell.classList.add("flash");
}

function isSameOrder(before, after) {
  return before.length === after.length && before.every((entry, place) => entry === after[place]);
}
