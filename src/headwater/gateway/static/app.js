/** The page: one connection, one query at a time, three panels around it. Wires them; each does its own drawing. */

import { connect } from "/client/headwater.js";
import { Editor, hasParameters } from "/static/editor.js";
import { EmissionsPanel } from "/static/emissions.js";
import { PipelinePanel, getJson, offerTraffic } from "/static/pipeline.js";
import { TableView } from "/static/table.js";
import { offerTheme } from "/static/theme.js";

const EMISSIONS = new Set(["result", "diff", "swap"]);
const STATES = { initializing: "asking", ready: "live", stale: "stale", closed: "ended" };
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");

const editor = new Editor($("sql"), $("mirror"), onInput);
const table = new TableView($("result"), $("ghosts"), showFacts);
const emissions = new EmissionsPanel($("emissions"), $("pause"), $("heartbeats"));
const pipeline = new PipelinePanel($("pipeline"));
const connection = connect("/v1/ws", { token: new URLSearchParams(location.search).get("token") });
let live = null;

connection.onMessage = (way, message) => {
  emissions.add(way, message);
  if (way === "in" && EMISSIONS.has(message.type)) pipeline.count();
};
connection.onState = showState;
connection.onError = showProblem;
pipeline.onStatus = showSource;
$("form").onsubmit = (event) => {
  event.preventDefault();
  run();
};
$("explain").onclick = explain;
$("stop").onclick = stop;
$("plan-close").onclick = () => ($("plan").hidden = true);
offerTheme($("theme"));
offerTraffic($("traffic"));
start();

/** A query in the address is shown and not run: anyone can write a link. Else the first example is, so that there is something to see. */
async function start() {
  const linked = new URLSearchParams(location.hash.slice(1));
  const examples = await getJson("/demo/queries").catch(() => []);
  offerExamples(examples);
  if (editor.sql !== "") return; // someone was faster
  if (linked.get("sql")) offerLinked(linked);
  else if (examples.length > 0) choose(examples[0]);
}

function offerLinked(linked) {
  fill(linked.get("sql"), linked.get("params") ?? "");
  $("note").textContent = "This query came with the link. Run it, and its result appears here and stays current.";
}

function offerExamples(examples) {
  $("examples").hidden = examples.length === 0;
  $("examples").replaceChildren(...examples.map((example) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: example.title, onclick: () => choose(example) });
    button.dataset.sql = example.sql;
    return button;
  }));
}

function choose({ sql, params = null }) {
  fill(sql, params === null ? "" : JSON.stringify(params));
  run();
}

function fill(sql, params) {
  editor.sql = sql;
  $("params").value = params;
  onInput(sql);
}

function onInput(sql) {
  $("params-field").hidden = !hasParameters(sql);
  hideProblem();
  markExample(sql);
}

function markExample(sql) {
  for (const button of $("examples").children) button.setAttribute("aria-pressed", String(button.dataset.sql === sql));
}

function run() {
  const sql = editor.sql.trim() === "" ? null : editor.sql;
  const params = readParams();
  if (sql === null || params === undefined) return;
  hideProblem();
  live?.abort();
  const asked = connection.query(sql, params, { onChange: follow, onError: (error) => refuse(asked, error), onClosed: (reason) => end(asked, reason) });
  live = asked;
  table.show(asked);
  follow(asked);
  const shared = params === null ? { sql } : { sql, params: $("params").value };
  history.replaceState(null, "", `#${new URLSearchParams(shared)}`);
}

function stop() {
  live?.abort();
}

/** null where there are none, undefined where they cannot be read. */
function readParams() {
  if ($("params-field").hidden || $("params").value.trim() === "") return null;
  try {
    return JSON.parse($("params").value);
  } catch {
    showProblem({ message: "Parameters are read as JSON.", hint: 'An array for ? and $1: ["paid", 42]. An object for :name: {"name": "paid"}.' });
    return undefined;
  }
}

function follow(changed) {
  if (changed !== live) return;
  showLive(changed.state);
  table.draw();
}

function refuse(asked, error) {
  if (asked !== live) return;
  showLive(asked.state);
  table.draw();
  showProblem(error);
}

function end(asked, reason) {
  if (asked !== live) return;
  showLive("closed");
  table.draw();
  if (reason !== "aborted") showProblem({ message: `This query has ended: ${reason}.` });
}

async function explain() {
  hideProblem();
  const params = readParams();
  if (params === undefined) return;
  const answer = await getExplanation(editor.sql, params);
  $("plan").hidden = answer.text === undefined;
  $("plan").querySelector("pre").textContent = answer.text ?? "";
  if (answer.error) showProblem(answer.error);
}

/** A refusal is an answer too, whatever its HTTP status. */
async function getExplanation(sql, params) {
  const asked = new URLSearchParams(params === null ? { sql } : { sql, params: JSON.stringify(params) });
  try {
    return await (await fetch(`/v1/explain?${asked}`)).json();
  } catch {
    return { error: { message: "The server gave no plan.", hint: "Is it still running?" } };
  }
}

/** `sqlite:///somewhere/long/shop.db` is shown as `sqlite · shop.db`. */
function showSource({ source = "", version }) {
  const [scheme, name] = [source.split(":")[0], source.split("/").at(-1)];
  $("source").textContent = [scheme, name, version && `v${version}`].filter(Boolean).join(" · ");
  $("source").title = source;
}

function showState(state) {
  $("status").dataset.state = state;
  $("status").textContent = state;
}

function showLive(state) {
  $("live").dataset.state = state;
  $("live").textContent = STATES[state];
  $("stop").hidden = state === "closed";
  document.querySelector(".result").dataset.state = state;
}

function showFacts(shown, drawn) {
  const { rows, seq, strategy, state, reason } = shown;
  const count = `${number.format(rows.length)} ${rows.length === 1 ? "row" : "rows"}`;
  const aside = Object.assign(document.createElement("span"), { className: "aside", textContent: ` · ${strategy ?? "?"} · seq ${seq}` });
  $("facts").replaceChildren(...(seq > 0 ? [count, aside] : []));
  $("note").textContent = note(rows.length, drawn, state, reason);
}

function note(count, drawn, state, reason) {
  if (state === "stale" && reason) return `These rows may be old: ${reason}.`;
  if (state === "initializing") return "Asking…";
  if (count === 0) return state === "closed" ? "" : "No row matches. When one does, it appears here.";
  return count > drawn ? `The first ${number.format(drawn)} of ${number.format(count)} rows are shown; all are kept current.` : "";
}

function showProblem({ code, message, hint, at }) {
  const parts = [code && ["code", "", code], ["div", "", message], hint && ["div", "hint", hint]].filter(Boolean);
  $("problem").replaceChildren(...parts.map(([tag, className, textContent]) => Object.assign(document.createElement(tag), { className, textContent })));
  $("problem").hidden = false;
  if (at) editor.underline(at);
}

function hideProblem() {
  $("problem").hidden = true;
  editor.underline(null);
}
