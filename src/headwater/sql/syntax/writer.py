"""A syntax tree as text that reads back as the same tree: every operand in parentheses that might need them.

Parameters are written as the values given for them. Never resolves a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from headwater.dialects.sqlite import literals
from headwater.sql.ir.conjunction import operands
from headwater.sql.ir.identifier import quote
from headwater.sql.syntax.nodes import Hole, Joined, Plus
from headwater.sql.syntax.parameters import Params

_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.Is: "IS",
    exp.Like: "LIKE",
    exp.Glob: "GLOB",
}
_PREFIXES: dict[type[exp.Expr], str] = {exp.Neg: "-", Plus: "+", exp.BitwiseNot: "~", exp.Not: "NOT "}
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
    def __init__(self, params: Params) -> None:
        self._params = params

    def write(self, node: exp.Expr) -> str:
        kind = type(node)
        if kind in _SIGNS:
            return f"{self.operand(node.this)} {_SIGNS[kind]} {self.operand(node.expression)}"
        if kind in _CHAINS:
            return _CHAINS[kind].join(self.operand(part) for part in operands(node, kind))
        if kind in _PREFIXES:
            return _PREFIXES[kind] + self.operand(node.this)
        return _WRITERS[kind](self, node)

    def operand(self, node: exp.Expr) -> str:
        text = self.write(node)
        return text if isinstance(node, _ATOMS) else f"({text})"

    def _list(self, nodes: Iterable[exp.Expr]) -> str:
        return ", ".join(self.write(node) for node in nodes)

    # Expressions

    def _column(self, node: exp.Column) -> str:
        return ".".join(quote(part) for part in (node.table, node.name) if part)

    def _literal(self, node: exp.Literal) -> str:
        return literals.write(node.name) if node.is_string else node.name

    def _hex(self, node: exp.HexString) -> str:
        return f"x'{node.name}'"

    def _null(self, node: exp.Null) -> str:
        return "NULL"

    def _boolean(self, node: exp.Boolean) -> str:
        return "TRUE" if node.this else "FALSE"

    def _placeholder(self, node: exp.Placeholder) -> str:
        return literals.write(self._params.const(node).value)

    def _in(self, node: exp.In) -> str:
        query = node.args.get("query")
        items = self.write(query) if query else f"({self._list(node.expressions)})"
        return f"{self.operand(node.this)} IN {items}"

    def _between(self, node: exp.Between) -> str:
        value, low, high = (self.operand(node.args[arg]) for arg in ("this", "low", "high"))
        return f"{value} BETWEEN {low} AND {high}"

    def _escape(self, node: exp.Escape) -> str:
        return f"{self.write(node.this)} ESCAPE {self.operand(node.expression)}"

    def _collate(self, node: exp.Collate) -> str:
        return f"{self.operand(node.this)} COLLATE {node.expression.name.upper()}"

    def _cast(self, node: exp.Cast) -> str:
        return f"CAST({self.write(node.this)} AS {quote(node.args['to'].name)})"

    def _case(self, node: exp.Case) -> str:
        base = f" {self.operand(node.this)}" if node.this else ""
        whens = "".join(
            f" WHEN {self.write(when.this)} THEN {self.write(when.args['true'])}" for when in node.args["ifs"]
        )
        default = node.args.get("default")
        return f"CASE{base}{whens}{f' ELSE {self.write(default)}' if default else ''} END"

    def _call(self, node: exp.Anonymous) -> str:
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
        named = node.alias and node.alias != node.name
        return quote(node.name) + (f" AS {quote(node.alias)}" if named else "")

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

    def _compound(self, node: exp.SetOperation) -> str:
        word = type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
        return self._framed(node, f"{self.write(node.this)} {word} {self.write(node.expression)}")

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

    def _common(self, node: exp.CTE) -> str:
        columns = ", ".join(quote(column.name) for column in node.args["alias"].args.get("columns") or ())
        return f"{quote(node.alias)}{f' ({columns})' if columns else ''} AS ({self.write(node.this)})"

    def _ordered(self, node: exp.Ordered) -> str:
        descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        nulls = "" if nulls_first != descending else " NULLS FIRST" if nulls_first else " NULLS LAST"
        key = self.write(node.this) if isinstance(node.this, exp.Collate) else self.operand(node.this)
        return f"{key}{' DESC' if descending else ''}{nulls}"

    def _hole(self, node: Hole) -> str:
        return node.name


_WRITERS: dict[type[exp.Expr], Callable[[Writer, Any], str]] = {
    exp.Column: Writer._column,
    exp.Literal: Writer._literal,
    exp.HexString: Writer._hex,
    exp.Null: Writer._null,
    exp.Boolean: Writer._boolean,
    exp.Placeholder: Writer._placeholder,
    exp.In: Writer._in,
    exp.Between: Writer._between,
    exp.Escape: Writer._escape,
    exp.Collate: Writer._collate,
    exp.Cast: Writer._cast,
    exp.Case: Writer._case,
    exp.Anonymous: Writer._call,
    exp.Star: Writer._star,
    exp.Exists: Writer._exists,
    exp.Alias: Writer._alias,
    exp.Subquery: Writer._subquery,
    exp.Table: Writer._table,
    Joined: Writer._joined,
    exp.Select: Writer._select,
    exp.Values: Writer._values,
    exp.Union: Writer._compound,
    exp.Intersect: Writer._compound,
    exp.Except: Writer._compound,
    exp.CTE: Writer._common,
    exp.Ordered: Writer._ordered,
    Hole: Writer._hole,
}
