"""A syntax tree as PostgreSQL's SQL that reads back as the same tree. Never resolves a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from headwater.model.value import Value
from headwater.sql.ir.identifier import quote
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.writer import Writer

_SIGNS: dict[type[exp.Expr], str] = {
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.ILike: "ILIKE",
    exp.SimilarTo: "SIMILAR TO",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
    exp.JSONBContains: "?",
}


def written(value: Value) -> str:
    """A constant that a column of its type may be compared with."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"(-{-value})"
        case float():
            return f"'{value!r}'::float8"
        case bytes():
            return f"'\\x{value.hex()}'::bytea"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


class PostgresWriter(Writer):
    def write(self, node: exp.Expr) -> str:
        kind = type(node)
        if kind in _SIGNS:
            return f"{self.operand(node.this)} {_SIGNS[kind]} {self.operand(node.expression)}"
        writer = _WRITERS.get(kind)
        return writer(self, node) if writer is not None else super().write(node)

    def _text(self, node: exp.Literal) -> str:
        return written(node.name) if node.is_string else node.name

    def _given(self, node: exp.Placeholder) -> str:
        return written(self._params.const(node).value)

    def _collated(self, node: exp.Collate) -> str:
        return f"{self.operand(node.this)} COLLATE {quote(node.expression.name)}"

    def _typed(self, node: exp.Cast) -> str:
        return f"CAST({self.write(node.this)} AS {node.args['to'].name})"

    def _each(self, node: exp.In) -> str:
        array = node.args.get("field")
        return f"{self.operand(node.this)} = ANY ({self.write(array)})" if array else super()._in(node)

    def _array(self, node: exp.Array) -> str:
        return f"ARRAY[{self._list(node.expressions)}]"

    def _subscripted(self, node: exp.Bracket) -> str:
        return f"({self.write(node.this)})[{self._list(node.expressions)}]"

    def _called(self, node: exp.Anonymous) -> str:
        if node.name != "extract":
            return super()._call(node)
        field, moment = node.expressions
        return f"extract({field.name} FROM {self.write(moment)})"

    def _zoned(self, node: exp.AtTimeZone) -> str:
        return f"{self.operand(node.this)} AT TIME ZONE {self.operand(node.args['zone'])}"

    def _located(self, node: exp.Table) -> str:
        """With its schema, whatever the search path."""
        name = ".".join(quote(part) for part in (node.db, node.name) if part)
        return f"{name} AS {quote(node.alias)}" if node.alias and node.alias != node.name else name

    def _crossed(self, node: Joined) -> str:
        if node.args["kind"] != "inner" or node.args.get("on") or node.args.get("using"):
            return super()._joined(node)
        right = self.write(node.expression)
        right = f"({right})" if isinstance(node.expression, Joined) else right
        return f"{self.write(node.this)} CROSS JOIN {right}"

    def _combined(self, node: exp.SetOperation) -> str:
        word = type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
        looser = isinstance(node, exp.Intersect) and not isinstance(node.this, exp.Intersect)
        left = self._side(node.this) if looser else self.write(node.this)
        return self._framed(node, f"{left} {word} {self._side(node.expression)}")

    def _side(self, node: exp.Expr) -> str:
        text = self.write(node)
        return f"({text})" if isinstance(node, exp.SetOperation) else text

    def _sorted(self, node: exp.Ordered) -> str:
        """NULLs are always given a place: their own differs from dialect to dialect."""
        key = self.write(node.this) if isinstance(node.this, exp.Collate) else self.operand(node.this)
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return f"{key}{' DESC' if node.args.get('desc') else ''} NULLS {nulls}"


_WRITERS: dict[type[exp.Expr], Callable[[PostgresWriter, Any], str]] = {
    exp.Literal: PostgresWriter._text,
    exp.Placeholder: PostgresWriter._given,
    exp.Collate: PostgresWriter._collated,
    exp.Cast: PostgresWriter._typed,
    exp.AtTimeZone: PostgresWriter._zoned,
    exp.In: PostgresWriter._each,
    exp.Array: PostgresWriter._array,
    exp.Bracket: PostgresWriter._subscripted,
    exp.Anonymous: PostgresWriter._called,
    exp.Table: PostgresWriter._located,
    Joined: PostgresWriter._crossed,
    exp.Union: PostgresWriter._combined,
    exp.Intersect: PostgresWriter._combined,
    exp.Except: PostgresWriter._combined,
    exp.Ordered: PostgresWriter._sorted,
}
