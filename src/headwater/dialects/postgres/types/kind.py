"""A kind: a type of PostgreSQL as far as the binder tells types apart. Values only.

`text collate en_US` is text that is equal where its bytes are, and ordered as only the source knows; `text` has the
collation C. `unknown` is a literal or parameter that takes the type of what it meets. `numeric 2` is a number with two
digits behind the point (see `numeric`), `bpchar 5 text` is char(5) (see `bpchar`), `array int4` an array of integers.
`enum …` and `other …` are named by their declaration: others are passed on, and nothing is computed with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sql.ir.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class PostgresKind:
    """`base` is the type's short name. `element` is that of an array, or of char(n) the text without its blanks."""

    base: str
    scale: int | None = None
    length: int | None = None
    collation: str | None = None
    element: PostgresKind | None = None
    declared: str | None = None

    @property
    def dialect(self) -> str:
        return "postgres"

    def __str__(self) -> str:
        collation = None if self.collation is None else f"collate {self.collation}"
        parts = (self.scale, self.length, collation, self.element, self.declared)
        return " ".join([self.base, *(str(part) for part in parts if part is not None)])

    @property
    def title(self) -> str:
        """As a message names it."""
        if self.declared is not None:
            return self.declared
        return self.base if self.base == "numeric" else str(self)


BOOL = PostgresKind("bool")
INT2, INT4, INT8 = PostgresKind("int2"), PostgresKind("int4"), PostgresKind("int8")
FLOAT4, FLOAT8 = PostgresKind("float4"), PostgresKind("float8")
NUMERIC = PostgresKind("numeric")
TEXT = PostgresKind("text")
DEFAULT = PostgresKind("text", collation="default")  # the database's own collation, whichever that is
UNKNOWN = PostgresKind("unknown")
UUID, BYTEA = PostgresKind("uuid"), PostgresKind("bytea")
DATE, TIME = PostgresKind("date"), PostgresKind("time")
TIMESTAMP, TIMESTAMPTZ = PostgresKind("timestamp"), PostgresKind("timestamptz")
INTERVAL = PostgresKind("interval")
JSON, JSONB = PostgresKind("json"), PostgresKind("jsonb")
INTEGERS = (INT2, INT4, INT8)
REALS = (FLOAT4, FLOAT8)
MOMENTS = (DATE, TIME, TIMESTAMP, TIMESTAMPTZ)
PLAIN = frozenset({*INTEGERS, BOOL, TEXT, UUID, BYTEA, *MOMENTS})  # equal values look the same, and we know their order


def kind_of_type(sql_type: SqlType | None) -> PostgresKind:
    """Of a column or a cast, by what it carries."""
    return sql_type if isinstance(sql_type, PostgresKind) else PostgresKind("other", declared="")


def is_integer(kind: PostgresKind) -> bool:
    return kind in INTEGERS


def is_text(kind: PostgresKind) -> bool:
    """Of any collation."""
    return kind.base == "text"


def is_enum(kind: PostgresKind) -> bool:
    """Its values are texts whose order only the source knows."""
    return kind.base == "enum"


def is_other(kind: PostgresKind) -> bool:
    return kind.base == "other"


def display_name(kind: PostgresKind) -> str:
    """As a message names it."""
    return kind.title if is_other(kind) else str(kind)


def is_array(kind: PostgresKind) -> bool:
    return kind.base == "array" and kind.element is not None


def element_of(kind: PostgresKind) -> PostgresKind:
    """The kind itself where it is no array."""
    return kind.element if kind.base == "array" and kind.element is not None else kind


def is_element(kind: PostgresKind) -> bool:
    """Of arrays whose equal elements look the same."""
    return kind in PLAIN or is_text(kind)
