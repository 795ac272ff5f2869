"""GROUP BY and aggregates: calls become columns of a group, and expressions over them speak of groups, not rows.

What has no one right answer is refused: bare columns, and keys whose equal values look different.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.model.errors import UnsupportedQuery
from headwater.model.schema import Table
from headwater.model.value import Type, Value
from headwater.sql.bind.clauses import Whole
from headwater.sql.bind.column_names import reference, renamed
from headwater.sql.bind.expression import bind_expr
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.dialect import Dialect
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr, OrderKey, Output
from headwater.sql.ir.relation import Aggregate, Group, Relation, RelColumn, Scan, inputs_of
from headwater.sql.ir.walk import names_in, substituted
from headwater.sql.syntax.span import Span, span

_ARITY = {"count": (0, 1), "group_concat": (1, 2), "string_agg": (2, 2)}
_EMPTY = {"count": Const(0, Type.INTEGER), "total": Const(0.0, Type.REAL)}


@dataclass(slots=True)
class Aggregates:
    """The aggregates of one SELECT, each once. `local` are the columns of its own FROM, `order` their order."""

    whole: Whole
    local: frozenset[str]
    order: tuple[OrderKey, ...] = ()
    found: list[Aggregate] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.column.name for each in self.found)

    def bind(self, inner: Scope, node: exp.Anonymous) -> Bound:
        """The call as a column of the group. `inner` is the scope of its arguments, where no aggregate may stand."""
        name = node.name.lower()
        args = [bind_expr(inner, arg) for arg in self._args(inner, node, name)]
        condition = node.args.get("filter")
        filter = bind_expr(inner, condition).expr if condition else None
        self._check(inner, node, name, [arg.expr for arg in args], filter)
        args = list(inner.dialect.aggregates.arguments(inner, node, args))
        compares = name != "group_concat"
        collation = next((arg.collating.name for arg in args[:1] if arg.collating.name and compares), "BINARY")
        type, sql_type = inner.dialect.aggregates.result(inner, node, args)
        distinct = bool(node.args.get("distinct")) and name not in ("min", "max")
        order = inner.dialect.aggregates.order(inner, node, args, self.order)
        self._check_local(inner, node, (key.expr for key in order))
        exprs = tuple(arg.expr for arg in args)
        return self._column(Aggregate(RelColumn("", type, sql_type), name, exprs, distinct, filter, collation, order))

    def _args(self, scope: Scope, node: exp.Anonymous, name: str) -> list[exp.Expr]:
        args = list(node.expressions)
        if len(args) == 1 and isinstance(args[0], exp.Star) and name == "count":
            args = []
        least, most = _ARITY.get(name, (1, 1))
        if not least <= len(args) <= most or any(isinstance(arg, exp.Star) for arg in args):
            raise scope.error(f"wrong number of arguments to {name}()", span(node))
        if node.args.get("distinct") and len(args) != 1 and name != "string_agg":
            raise scope.error("DISTINCT aggregates take exactly one argument", span(node))
        return args

    def _check(self, scope: Scope, node: exp.Anonymous, name: str, args: Sequence[Expr], filter: Expr | None) -> None:
        if name not in scope.dialect.aggregates.kept:
            raise scope.refusal(
                f"the aggregate {name}() is not supported yet", span(node), "compute it in the application"
            )
        self._check_local(scope, node, (*args, filter))

    def _check_local(self, scope: Scope, node: exp.Anonymous, exprs: Iterable[Expr | None]) -> None:
        if not names_in(*exprs) <= self.local:
            raise scope.refusal(
                "an aggregate over columns of the query around is not supported yet", span(node), "write it as a join"
            )

    def _column(self, wanted: Aggregate) -> Bound:
        for known in self.found:
            if replace(known, column=wanted.column) == wanted:
                return _bound(known.column)
        name = f"{self.whole.names.fresh('agg')}.{wanted.function}"
        self.found.append(replace(wanted, column=replace(wanted.column, name=name)))
        return _bound(self.found[-1].column)


def _bound(column: RelColumn) -> Bound:
    return Bound(reference(column))


def over_nothing(aggregates: Iterable[Aggregate]) -> Mapping[Expr, Expr]:
    """What the columns of a group stand for where there may be no such group: count() is 0 there, not NULL."""
    return {
        reference(each.column): Call("coalesce", (reference(each.column), _EMPTY[each.function]), each.column.type)
        for each in aggregates
        if each.function in _EMPTY
    }


def over_no_rows(aggregates: Iterable[Aggregate]) -> tuple[tuple[str, Value], ...]:
    """What each aggregate is where there is no row."""
    nothing = Const(None, Type.ANY)
    return tuple((each.column.name, _EMPTY.get(each.function, nothing).value) for each in aggregates)


@dataclass(slots=True)
class Grouping:
    """The keys of one GROUP BY. `place` is what a refusal points at."""

    whole: Whole
    source: Relation
    place: Span | None
    keys: dict[Expr, RelColumn] = field(default_factory=dict)

    def add(self, bound: Bound, at: Span | None) -> ColumnRef:
        if not self.whole.dialect.types.looks_alike(bound):
            raise UnsupportedQuery(
                "grouping by values that are equal and yet look different has no one answer",
                sql=self.whole.sql,
                at=at,
                hint="add COLLATE BINARY, or CAST to one type",
            )
        return self._key(bound)

    def _key(self, bound: Bound) -> ColumnRef:
        if bound.expr not in self.keys:
            name = bound.expr.name if isinstance(bound.expr, ColumnRef) else self.whole.names.fresh("key")
            self.keys[bound.expr] = renamed(self.whole.dialect, bound, name)
        return reference(self.keys[bound.expr])

    def cover(self, exprs: Iterable[Expr | None], local: frozenset[str], at: Span | None) -> None:
        """Bare columns that the keys decide become keys too; others are refused."""
        replacements = self.replacements
        rest = [substituted(expr, replacements) for expr in exprs if expr is not None]
        grouped = {column.name for column in self.keys.values()}
        for name in sorted((names_in(*rest) & local) - grouped):
            column = self._dependent(name)
            if column is None:
                raise UnsupportedQuery(
                    f"{name} is neither grouped nor aggregated: which row's value is meant is not said",
                    sql=self.whole.sql,
                    at=at,
                    hint=f"add it to GROUP BY, or write min({name})",
                )
            self.keys[reference(column)] = column

    def _dependent(self, name: str) -> RelColumn | None:
        grouped = {expr.name for expr in self.keys if isinstance(expr, ColumnRef)}
        for scan in scans(self.source):
            found = next((column for column in scan.columns if column.name == name), None)
            if found and scan.key and set(scan.key) <= grouped and self._unique(scan):
                return found
        return None

    def _unique(self, scan: Scan) -> bool:
        """Some primary keys of SQLite take many NULLs."""
        return is_unique(self.whole.dialect, self.whole.tables[scan.table.lower()])

    @property
    def replacements(self) -> dict[Expr, Expr]:
        return {expr: reference(column) for expr, column in self.keys.items()}

    def over(self, relation: Relation, aggregates: Sequence[Aggregate]) -> Group:
        keys = tuple(Output(column.name, expr) for expr, column in self.keys.items())
        return Group(relation, keys, tuple(self.keys.values()), tuple(aggregates))


def is_unique(dialect: Dialect, table: Table) -> bool:
    return dialect.names.rowid(table) is not None or not any(table.column(name).nullable for name in table.key)


def scans(relation: Relation) -> Iterator[Scan]:
    if isinstance(relation, Scan):
        yield relation
    for each in inputs_of(relation):
        yield from scans(each)


def calls_in(node: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls of a query's own expressions, not those of queries inside them."""
    if isinstance(node, exp.Anonymous):
        yield node
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from calls_in(child)


def is_concatenated(node: exp.Expr) -> bool:
    return any(call.name.lower() == "group_concat" for call in calls_in(node))
