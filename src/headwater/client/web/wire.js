/**
 * Values on the wire. JSON holds what it can; what it cannot is an object with one tag.
 * Never touches a socket.
 */

/** A decimal number kept digit for digit. JavaScript has no such number, so it is text that says what it is. */
export class Decimal {
  constructor(text) {
    this.text = text;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return { $decimal: this.text };
  }
}

/**
 * A value that JavaScript has no type for, kept as text: `kind` is date, time, timestamp, timestamptz (a moment in UTC, to
 * the microsecond), interval (ISO 8601), uuid, or the database's own name for it: inet, int4range, …
 */
export class Literal {
  constructor(kind, text, verbatim = false) {
    this.kind = kind;
    this.text = text;
    this.verbatim = verbatim;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return this.verbatim ? { $verbatim: [this.kind, this.text] } : { [`$${this.kind}`]: this.text };
  }
}

/** A JSON document of the database: `value` is what it parses to, `text` is as it came. */
export class Json {
  constructor(text) {
    this.text = text;
    this.value = JSON.parse(text);
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return { $json: this.text };
  }
}

const LITERALS = ["date", "time", "timestamp", "timestamptz", "interval", "uuid"];
const FLOATS = new Map([["nan", NaN], ["inf", Infinity], ["-inf", -Infinity]]);

/** A JSON value as it came → what it means. */
export function decodeValue(value) {
  if (value === null || typeof value !== "object") return value;
  if ("$int" in value) return BigInt(value.$int);
  if ("$bytes" in value) return Uint8Array.from(atob(value.$bytes), (character) => character.charCodeAt(0));
  if ("$float" in value) return FLOATS.get(value.$float);
  if ("$decimal" in value) return new Decimal(value.$decimal);
  if ("$json" in value) return new Json(value.$json);
  if ("$array" in value) return value.$array.map(decodeValue);
  if ("$verbatim" in value) return new Literal(...value.$verbatim, true);
  const kind = LITERALS.find((name) => `$${name}` in value);
  if (kind) return new Literal(kind, value[`$${kind}`]);
  throw new TypeError(`expected a tagged value, found ${JSON.stringify(value)}`);
}

/** What it means → a JSON value. The inverse of `decodeValue`. */
export function encodeValue(value) {
  if (typeof value === "bigint") return { $int: String(value) };
  if (typeof value === "number" && !Number.isFinite(value)) return { $float: floatName(value) };
  if (value instanceof Uint8Array) return { $bytes: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) };
  if (isText(value)) return value.toJSON();
  if (Array.isArray(value)) return { $array: value.map(encodeValue) };
  return value ?? null;
}

/** Parameters as `?` and `$1` want them (an array) or as `:name` wants them (an object). */
export function encodeParams(params) {
  if (Array.isArray(params)) return params.map(encodeValue);
  return mapFields(params, encodeValue);
}

/** A `result`, `diff` or `swap` message → the emission it carries, with values decoded and rows as objects. */
export function decodeEmission(message) {
  const { type, seq, prev, gen, position } = message;
  const head = { type, seq, prev, gen, position };
  switch (type) {
    case "result":
      return { ...head, rows: decodeRows(message.rows, message.columns), hashes: message.hashes, columns: message.columns };
    case "diff":
      return { ...head, changes: message.changes.map(decodeChange) };
    case "swap":
      return { ...head, pairs: message.pairs };
    default:
      throw new TypeError(`expected an emission, found ${type}`);
  }
}

/** Two values are the same when a reader could not tell them apart. */
export function sameValue(a, b) {
  if (Object.is(a, b)) return true;
  if (isText(a) && isText(b)) return a.constructor === b.constructor && a.kind === b.kind && a.text === b.text;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((each, at) => sameValue(each, b[at]));
  if (!(a instanceof Uint8Array && b instanceof Uint8Array)) return false;
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

function isText(value) {
  return value instanceof Decimal || value instanceof Literal || value instanceof Json;
}

function decodeRows(rows, columns) {
  return rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at], decodeValue(value)])));
}

function decodeChange(change) {
  const { type, new_hash = null, old_hash = null, index = null, old_index = null } = change;
  const fields = change.new ? mapFields(change.new, decodeValue) : null;
  return { type, new: fields, new_hash, old_hash, index, old_index };
}

function mapFields(fields, convert) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, convert(value)]));
}

function floatName(value) {
  return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
