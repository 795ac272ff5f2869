/**
 * The place for SQL: a textarea over a coloured mirror of itself, in which a fault is underlined.
 * Knows SQL's words, not its meaning.
 */

const TOKEN = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\?|[:$@]\w+)|(\b\d[\w.]*)|([A-Za-z_]\w*)|([^])/g;
const KINDS = [null, "comment", "string", "name", "parameter", "number", "word", "other"];
const KEYWORDS = new Set(
  ("select distinct from where and or not in is null like glob between case when then else end as order by asc desc " +
    "nulls first last limit offset cast coalesce group having join left right inner outer on using union all except " +
    "intersect with exists escape collate true false").split(" "),
);

export class Editor {
  #area;
  #mirror;
  #fault = null; // [start, end] in UTF-16 units

  constructor(area, mirror, onInput) {
    this.#area = area;
    this.#mirror = mirror;
    area.addEventListener("input", () => {
      this.#fault = null;
      this.#reflect();
      onInput(area.value);
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        area.form.requestSubmit();
      }
    });
    this.#reflect();
  }

  get sql() {
    return this.#area.value;
  }

  set sql(text) {
    this.#area.value = text;
    this.#fault = null;
    this.#reflect();
  }

  /** `at` counts characters, as the server does; an index of JavaScript counts UTF-16 units. */
  underline(at) {
    const characters = [...this.sql];
    const units = (count) => characters.slice(0, count).join("").length;
    this.#fault = at && [units(at[0]), Math.max(units(at[1]), units(at[0]) + 1)];
    this.#reflect();
  }

  #reflect() {
    const [start, end] = this.#fault ?? [0, 0];
    const text = this.sql;
    const parts = [...coloured(text.slice(0, start))];
    if (this.#fault) parts.push(span("fault", text.slice(start, end) || " "));
    parts.push(...coloured(text.slice(end)), "\n");
    this.#mirror.replaceChildren(...parts);
  }
}

export function hasParameters(sql) {
  return [...sql.matchAll(TOKEN)].some((match) => match[4] !== undefined);
}

function* coloured(text) {
  for (const match of text.matchAll(TOKEN)) {
    const kind = KINDS[match.findIndex((group, at) => at > 0 && group !== undefined)];
    const isKeyword = kind === "word" && KEYWORDS.has(match[0].toLowerCase());
    if (isKeyword) yield span("keyword", match[0]);
    else if (["comment", "string", "parameter", "number"].includes(kind)) yield span(kind, match[0]);
    else yield match[0];
  }
}

function span(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  return element;
}
