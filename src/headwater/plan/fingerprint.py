"""Stable names for templates and instances: the same on every machine and in every process. Never `hash()`."""

from __future__ import annotations

import struct

import xxhash

from headwater.model.value import Row, Value, pack_any


def template_id(table: str, sql: str) -> str:
    return xxhash.xxh3_128_hexdigest(f"{table}\0{sql}".encode("utf-8", "surrogatepass"))


def relation_name(text: str) -> str:
    """No table is called so: names of a source do not begin with `~` where we make one."""
    return "~" + xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def instance_id(template: str, values: Row, limit: int | None, offset: int) -> int:
    """63 bits, so that it fits a signed 64-bit column."""
    parts = [template, len(values), *values, limit, offset]
    return xxhash.xxh3_64_intdigest(b"".join(_encoded(part) for part in parts)) & ((1 << 63) - 1)


def _encoded(value: Value) -> bytes:
    """Length first, so that no two sequences of values look alike."""
    packed = pack_any(_normal(value)) or b""
    return struct.pack(">I", len(packed)) + packed


def _normal(value: Value) -> Value:
    """1 and 1.0 are one value, 0.0 and -0.0 too."""
    if isinstance(value, float) and value.is_integer() and -(1 << 63) <= value < 1 << 63:
        return int(value)
    return value
