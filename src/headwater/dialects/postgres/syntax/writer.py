"""A syntax tree as PostgreSQL's SQL that reads back as the same tree. Never resolves a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp

from headwater.sql.ir.identifier import quote
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.writer import Writer


class PostgresWriter(Writer):
    _signs: ClassVar[Mapping[type[exp.Expr], str]] = {
        **Writer._signs,
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

    def _collate(self, node: exp.Collate) -> str:
        return f"{self.operand(node.this)} COLLATE {quote(node.expression.name)}"

    def _cast(self, node: exp.Cast) -> str:
        return f"CAST({self.write(node.this)} AS {node.args['to'].name})"

    def _in(self, node: exp.In) -> str:
        array = node.args.get("field")
        return f"{self.operand(node.this)} = ANY ({self.write(array)})" if array else super()._in(node)

    def _array(self, node: exp.Array) -> str:
        return f"ARRAY[{self._list(node.expressions)}]"

    def _bracket(self, node: exp.Bracket) -> str:
        return f"({self.write(node.this)})[{self._list(node.expressions)}]"

    def _anonymous(self, node: exp.Anonymous) -> str:
        if node.name != "extract":
            return super()._anonymous(node)
        field, moment = node.expressions
        return f"extract({field.name} FROM {self.write(moment)})"

    def _attimezone(self, node: exp.AtTimeZone) -> str:
        return f"{self.operand(node.this)} AT TIME ZONE {self.operand(node.args['zone'])}"

    def _joined(self, node: Joined) -> str:
        """PostgreSQL takes no JOIN without a condition."""
        if node.args["kind"] != "inner" or node.args.get("on") or node.args.get("using"):
            return super()._joined(node)
        right = self.write(node.expression)
        right = f"({right})" if isinstance(node.expression, Joined) else right
        return f"{self.write(node.this)} CROSS JOIN {right}"

    def _left_side(self, node: exp.SetOperation) -> str:
        looser = isinstance(node, exp.Intersect) and not isinstance(node.this, exp.Intersect)
        return self._side(node.this) if looser else self.write(node.this)

    def _right_side(self, node: exp.SetOperation) -> str:
        return self._side(node.expression)

    def _side(self, node: exp.Expr) -> str:
        text = self.write(node)
        return f"({text})" if isinstance(node, exp.SetOperation) else text
