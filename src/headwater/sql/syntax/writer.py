"""A syntax tree as text that reads back as the same tree: every operand in parentheses that might need them.

A node is written by the method named after it; dialects override those that they write otherwise. Parameters are
written as the values given for them. Never resolves a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from sqlglot import exp

from headwater.model.value import Value
from headwater.sql.ir.conjunction import operands
from headwater.sql.ir.identifier import quote
from headwater.sql.syntax.nodes import Hole, Joined, Plus
from headwater.sql.syntax.parameters import Params

_CHAINS: dict[type[exp.Expr], str] = {exp.And: " AND ", exp.Or: " OR "}
_ATOMS = (
    exp.Column,
    exp.Literal,
    exp.HexString,
    exp.Null,
    exp.Boolean,
    exp.Case,
    exp.Cast,
    exp.Anonymous,
    exp.Subquery,
    Hole,
)


class Writer:
    _signs: ClassVar[Mapping[type[exp.Expr], str]] = {
        exp.EQ: "=",
        exp.NEQ: "<>",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
        exp.Add: "+",
        exp.Sub: "-",
        exp.Mul: "*",
        exp.Div: "/",
        exp.Mod: "%",
        exp.DPipe: "||",
        exp.Is: "IS",
        exp.Like: "LIKE",
    }
    _prefixes: ClassVar[Mapping[type[exp.Expr], str]] = {exp.Neg: "-", Plus: "+", exp.Not: "NOT "}

    def __init__(self, params: Params) -> None:
        self._params = params

    def write(self, node: exp.Expr) -> str:
        kind = type(node)
        if kind in self._signs:
            return f"{self.operand(node.this)} {self._signs[kind]} {self.operand(node.expression)}"
        if kind in _CHAINS:
            return _CHAINS[kind].join(self.operand(part) for part in operands(node, kind))
        if kind in self._prefixes:
            return self._prefixes[kind] + self.operand(node.this)
        method: Callable[[exp.Expr], str] = getattr(self, f"_{kind.key}")
        return method(node)

    def operand(self, node: exp.Expr) -> str:
        text = self.write(node)
        return text if isinstance(node, _ATOMS) else f"({text})"

    def _list(self, nodes: Iterable[exp.Expr]) -> str:
        return ", ".join(self.write(node) for node in nodes)

    # Expressions

    def _column(self, node: exp.Column) -> str:
        return ".".join(quote(part) for part in (node.table, node.name) if part)

    def _literal(self, node: exp.Literal) -> str:
        return self._constant(node.name) if node.is_string else node.name

    def _null(self, node: exp.Null) -> str:
        return "NULL"

    def _boolean(self, node: exp.Boolean) -> str:
        return "TRUE" if node.this else "FALSE"

    def _placeholder(self, node: exp.Placeholder) -> str:
        return self._constant(self._params.const(node).value)

    def _constant(self, value: Value) -> str:
        return self._params.dialect.syntax.write(value)

    def _in(self, node: exp.In) -> str:
        query = node.args.get("query")
        items = self.write(query) if query else f"({self._list(node.expressions)})"
        return f"{self.operand(node.this)} IN {items}"

    def _between(self, node: exp.Between) -> str:
        value, low, high = (self.operand(node.args[arg]) for arg in ("this", "low", "high"))
        return f"{value} BETWEEN {low} AND {high}"

    def _escape(self, node: exp.Escape) -> str:
        return f"{self.write(node.this)} ESCAPE {self.operand(node.expression)}"

    def _case(self, node: exp.Case) -> str:
        base = f" {self.operand(node.this)}" if node.this else ""
        whens = "".join(
            f" WHEN {self.write(when.this)} THEN {self.write(when.args['true'])}" for when in node.args["ifs"]
        )
        default = node.args.get("default")
        return f"CASE{base}{whens}{f' ELSE {self.write(default)}' if default else ''} END"

    def _anonymous(self, node: exp.Anonymous) -> str:
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        terms, condition = node.args.get("order"), node.args.get("filter")
        order = f" ORDER BY {self._list(terms.expressions)}" if terms else ""
        filter = f" FILTER (WHERE {self.write(condition)})" if condition else ""
        return f"{node.name.lower()}({distinct}{self._list(node.expressions)}{order}){filter}"

    def _star(self, node: exp.Star) -> str:
        return "*"

    def _exists(self, node: exp.Exists) -> str:
        return f"EXISTS {self.write(node.this)}"

    # Queries

    def _alias(self, node: exp.Alias) -> str:
        return f"{self.write(node.this)} AS {quote(node.alias)}"

    def _subquery(self, node: exp.Subquery) -> str:
        columns = ", ".join(quote(column.name) for column in node.args.get("columns") or ())
        alias = f" AS {quote(node.alias)}{f' ({columns})' if columns else ''}" if node.alias else ""
        return f"({self.write(node.this)}){alias}"

    def _table(self, node: exp.Table) -> str:
        name = ".".join(quote(part) for part in (node.db, node.name) if part)
        return f"{name} AS {quote(node.alias)}" if node.alias and node.alias != node.name else name

    def _joined(self, node: Joined) -> str:
        right = self.write(node.expression)
        right = f"({right})" if isinstance(node.expression, Joined) else right
        kind = "" if node.args["kind"] == "inner" else node.args["kind"].upper() + " "
        using = ", ".join(quote(name.name) for name in node.args.get("using") or ())
        on = node.args.get("on")
        condition = f" USING ({using})" if using else f" ON {self.write(on)}" if on else ""
        return f"{self.write(node.this)} {kind}JOIN {right}{condition}"

    def _select(self, node: exp.Select) -> str:
        args = node.args
        distinct = "DISTINCT " if args.get("distinct") else ""
        clauses = [
            f"SELECT {distinct}{self._list(node.expressions)}",
            f"FROM {self.write(args['from_'])}" if args.get("from_") else "",
            f"WHERE {self.write(args['where'].this)}" if args.get("where") else "",
            f"GROUP BY {self._list(args['group'].expressions)}" if args.get("group") else "",
            f"HAVING {self.write(args['having'].this)}" if args.get("having") else "",
        ]
        return self._framed(node, " ".join(clause for clause in clauses if clause))

    def _values(self, node: exp.Values) -> str:
        return self._framed(node, "VALUES " + ", ".join(f"({self._list(row.expressions)})" for row in node.expressions))

    def _union(self, node: exp.Union) -> str:
        return self._combined(node)

    def _intersect(self, node: exp.Intersect) -> str:
        return self._combined(node)

    def _except(self, node: exp.Except) -> str:
        return self._combined(node)

    def _combined(self, node: exp.SetOperation) -> str:
        word = type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
        return self._framed(node, f"{self._left_side(node)} {word} {self._right_side(node)}")

    def _left_side(self, node: exp.SetOperation) -> str:
        return self.write(node.this)

    def _right_side(self, node: exp.SetOperation) -> str:
        return self.write(node.expression)

    def _framed(self, node: exp.Expr, text: str) -> str:
        args = node.args
        clauses = [
            f"WITH {self._list(args['with_'].expressions)}" if args.get("with_") else "",
            text,
            f"ORDER BY {self._list(args['order'].expressions)}" if args.get("order") else "",
            f"LIMIT {self.write(args['limit'].expression)}" if args.get("limit") else "",
            f"OFFSET {self.write(args['offset'].expression)}" if args.get("offset") else "",
        ]
        return " ".join(clause for clause in clauses if clause)

    def _cte(self, node: exp.CTE) -> str:
        columns = ", ".join(quote(column.name) for column in node.args["alias"].args.get("columns") or ())
        return f"{quote(node.alias)}{f' ({columns})' if columns else ''} AS ({self.write(node.this)})"

    def _ordered(self, node: exp.Ordered) -> str:
        key = self.write(node.this) if isinstance(node.this, exp.Collate) else self.operand(node.this)
        return f"{key}{' DESC' if node.args.get('desc') else ''}{self._nulls(node)}"

    def _nulls(self, node: exp.Ordered) -> str:
        return " NULLS FIRST" if node.args.get("nulls_first") else " NULLS LAST"

    def _hole(self, node: Hole) -> str:
        return node.name
