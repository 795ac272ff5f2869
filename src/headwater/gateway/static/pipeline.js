/** The pipeline panel: what `/v1/status` says, asked once a second. Shows what is there; a missing field is a dash. */

import { Tile } from "/static/plot.js";

const POLL_MS = 1_000;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export class PipelinePanel {
  #root;
  #tiles;
  #last = null; // {at_ms, transactions}
  #emissions = 0;

  constructor(root) {
    this.#root = root;
    this.#tiles = tiles(root.querySelector("#tiles"));
    this.#poll();
  }

  /** One more emission reached this page. */
  count() {
    this.#emissions++;
  }

  async #poll() {
    const status = document.hidden ? null : await getJson("/v1/status").catch(() => null);
    if (status !== null) this.#show(status);
    setTimeout(() => this.#poll(), POLL_MS);
  }

  #show(status) {
    this.#tiles.transactions.push(this.#rate(status));
    this.#tiles.lag.push(status.lag_ms ?? latest(status.cells));
    this.#tiles.subscriptions.push(status.subscriptions);
    this.#root.querySelector("#runner").textContent = `runner: ${status.runner ?? "unknown"}`;
    this.#root.querySelector("#pipeline-facts").replaceChildren(...facts(status));
    this.#showCells(status.cells ?? []);
    this.onStatus?.(status);
  }

  /** The server's own word; else what the total grew by. */
  #rate({ transactions, transactions_per_s }) {
    const now = { at_ms: performance.now(), transactions, emissions: this.#emissions };
    const last = this.#last ?? now;
    this.#last = now;
    const seconds = (now.at_ms - last.at_ms) / 1_000;
    this.#tiles.emissions.push(seconds > 0 ? (now.emissions - last.emissions) / seconds : 0);
    return transactions_per_s ?? (seconds > 0 ? (transactions - last.transactions) / seconds : 0);
  }

  #showCells(cells) {
    const table = this.#root.querySelector("#cells");
    table.hidden = cells.length === 0;
    const rows = cells.map((cell) => tableRow([cell.cell, cell.epoch, cell.attempt, count(cell.steps), count(cell.offset), ms(cell.lag_ms)]));
    table.tBodies[0].replaceChildren(...rows);
  }
}

/** Shows the traffic slider where the server is a demo. The slider is finer where rates are low. */
export async function offerTraffic(root) {
  const answer = await getJson("/demo/rate").catch(() => null);
  if (answer === null) return;
  const [slider, output] = [root.querySelector("#rate"), root.querySelector("#rate-shown")];
  const rateMax = answer.max ?? 500;
  const rate = () => Math.round(rateMax * (slider.value / 100) ** 2);
  const show = () => (output.textContent = `${rate()} tx/s`);
  slider.value = Math.round(100 * Math.sqrt(answer.rate / rateMax));
  slider.oninput = show;
  slider.onchange = () => postJson("/demo/rate", { rate: rate() });
  show();
  output.textContent = `${Math.round(answer.rate)} tx/s`;
  root.hidden = false;
}

export async function getJson(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return answer.json();
}

function postJson(address, body) {
  return fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

function tiles(parent) {
  return {
    transactions: new Tile(parent, { name: "transactions", unit: "/s", hue: "var(--water)", least: 4, write: tenths }),
    lag: new Tile(parent, { name: "lag", unit: "ms", hue: "var(--sun)", least: 5, write: tenths }),
    emissions: new Tile(parent, { name: "emissions", unit: "/s", hue: "var(--leaf)", least: 4, write: tenths }),
    subscriptions: new Tile(parent, { name: "subscriptions", unit: "", hue: "var(--number)", least: 2, write: count }),
  };
}

function facts(status) {
  const known = { epoch: status.epoch, position: status.position, "log offset": status.log_offset, windows: status.windows };
  return Object.entries(known).map(([name, value]) => {
    const pair = document.createElement("div");
    pair.innerHTML = "<dt></dt><dd></dd>";
    pair.firstChild.textContent = name;
    pair.lastChild.textContent = count(value);
    pair.title = value ?? "";
    return pair;
  });
}

function tableRow(texts) {
  const row = document.createElement("tr");
  for (const text of texts) row.insertCell().textContent = text ?? "–";
  return row;
}

function latest(cells) {
  const lags = (cells ?? []).map((cell) => cell.lag_ms).filter(Number.isFinite);
  return lags.length > 0 ? Math.max(...lags) : null;
}

function count(value) {
  if (!Number.isFinite(value)) return value === undefined || value === null ? "–" : String(value);
  return value < 100_000 ? whole.format(value) : short.format(value);
}

function tenths(value) {
  return value < 10 && !Number.isInteger(value) ? value.toFixed(1) : whole.format(value);
}

function ms(value) {
  return Number.isFinite(value) ? `${tenths(value)} ms` : null;
}
