/** How a value is written in a cell. Knows nothing of tables. */

import { Decimal } from "/client/headwater.js";

const BYTES_SHOWN = 12;
const NUMERIC = new Set(["integer", "real", "decimal"]);

export function isNumericType(type) {
  return NUMERIC.has(type);
}

export function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint" || value instanceof Decimal;
}

/** `{text, kind}`, the kind being "" for what needs no mark; a whole number in a REAL column keeps its point, as the database would write it. */
export function shown(value, type) {
  if (value === null || value === undefined) return { text: "NULL", kind: "null" };
  if (value instanceof Uint8Array) return { text: bytes(value), kind: "blob" };
  if (typeof value === "number" && type === "real") return { text: real(value), kind: "" };
  return { text: String(value), kind: "" };
}

export function decimals(text) {
  const point = text.indexOf(".");
  return point < 0 || /[eE]/.test(text) ? 0 : text.length - point - 1;
}

function real(value) {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
}

function bytes(value) {
  const head = Array.from(value.subarray(0, BYTES_SHOWN), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return value.length > BYTES_SHOWN ? `x'${head}…' ${value.length} bytes` : `x'${head}'`;
}
