"""FROM: tables, derived tables and joins become a relation and the names that can be seen over it.

ON of an inner join that no outer join can pad is handed back: there it says the same in WHERE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.bind.clauses import Binder, Environment, InnerQuery
from headwater.sql.bind.column_names import computed, reference, renamed
from headwater.sql.bind.expression import bind_expr, compare
from headwater.sql.bind.scope import Bound, Scope, ScopeTable
from headwater.sql.dialect import Dialect
from headwater.sql.ir.collation import Collating
from headwater.sql.ir.common_type import common_type
from headwater.sql.ir.conjunction import chain
from headwater.sql.ir.expr import Call, ColumnRef, Const, Expr, OrderKey, Output
from headwater.sql.ir.relation import Join, Project, Relation, RelColumn, Scan, Values, columns_of
from headwater.sql.ir.walk import names_in
from headwater.sql.syntax.nodes import Joined
from headwater.sql.syntax.span import span
from headwater.sql.syntax.suggestions import did_you_mean, listed

Shared = Mapping[str, tuple[str, Bound]]
_PADDED = {"inner": (False, False), "left": (False, True), "right": (True, False), "full": (True, True)}


@dataclass(frozen=True, slots=True)
class From:
    """`deferred` are joins whose ON belongs to WHERE. `order` is the order the rows of a single table come in."""

    relation: Relation
    sources: tuple[ScopeTable, ...] = ()
    shared: Shared = field(default_factory=dict)
    deferred: tuple[Joined, ...] = ()
    order: tuple[OrderKey, ...] = ()


@dataclass(frozen=True, slots=True)
class _Side:
    sources: tuple[ScopeTable, ...]
    shared: Shared


@dataclass(slots=True)
class FromClause:
    """One FROM clause: first all its names, then its conditions, which may use any of them."""

    binder: Binder
    around: Environment
    outer: Scope | None
    leaves: dict[int, Relation] = field(default_factory=dict)
    using: dict[int, list[Expr]] = field(default_factory=dict)
    sides: dict[int, _Side] = field(default_factory=dict)
    coalesced: set[str] = field(default_factory=set)
    order: tuple[OrderKey, ...] = ()

    def bind(self, node: exp.Expr | None) -> From:
        if node is None:
            return From(self._nothing())
        side = self._side(node)
        whole = self.binder.whole
        scope = Scope(whole.sql, side.sources, whole.params, side.shared, outer=self.outer, clause=_PLAIN)
        deferred: list[Joined] = []
        relation = self._relation(node, scope, False, deferred)
        order = self.order if not isinstance(node, Joined) else ()
        return From(relation, side.sources, side.shared, tuple(deferred), order)

    def _nothing(self) -> Relation:
        """SELECT without FROM: one row."""
        name = self.binder.whole.names.fresh("one")
        return Values((computed(self.binder.whole.dialect, f"{name}.row", Const(1, Type.INTEGER)),), ((1,),))

    # Names

    def _side(self, node: exp.Expr) -> _Side:
        if isinstance(node, Joined):
            self.sides[id(node)] = self._joined(node, self._side(node.this), self._side(node.expression))
            return self.sides[id(node)]
        source = self._table(node) if isinstance(node, exp.Table) else self._derived(node)
        return _Side((source,), {})

    def _table(self, node: exp.Table) -> ScopeTable:
        common = None if node.db else self.around.get(node.name.lower())
        if common is not None:
            return self._common(node, common.node, common.around)
        is_hidden = node.name.lower() in self.around
        table = self._find(node)
        if is_hidden and not node.db:  # our text has no schemas: it would name the common table
            raise UnsupportedQuery(f"a table behind WITH {node.name} AS …", sql=self.binder.whole.sql, at=span(node))
        name = node.alias or node.name
        prefix = self.binder.whole.names.prefix(name)
        scan = scanned(self.binder.whole.dialect, table, prefix)
        self.leaves[id(node)] = scan
        columns = zip(table.names, scan.columns, strict=True)
        return ScopeTable(name, tuple((own, _bound(column)) for own, column in columns), table)

    def _find(self, node: exp.Table) -> Table:
        sql = self.binder.whole.sql
        known = self.binder.whole.tables
        found = self.binder.whole.dialect.names.table(known, node, sql)
        if found is not None:
            return found
        names = [table.name for table in known.values()]
        hint = did_you_mean(node.name, names, f"there is {listed(names)}" if names else "there are no tables")
        raise SqlError(f"no such table: {node.name}", sql=sql, at=span(node.this), hint=hint)

    def _common(self, node: exp.Table, common: exp.CTE, around: Environment) -> ScopeTable:
        """Bound anew at each use: a common table is a name for its text."""
        answer = self.binder.answer(common.this, around, None)
        spelled = [column.name for column in common.args["alias"].args.get("columns") or ()]
        if spelled and len(spelled) != len(answer.columns):
            raise SqlError(
                f"table {common.alias} has {len(answer.columns)} values for {len(spelled)} columns",
                sql=self.binder.whole.sql,
                at=span(common),
            )
        names = spelled or [name for name, _ in answer.columns]
        return self._leaf(node, node.alias or common.alias, names, answer)

    def _derived(self, node: exp.Expr) -> ScopeTable:
        answer = self.binder.answer(node.this, self.around, self.outer)
        if answer.correlated:
            raise UnsupportedQuery(
                "a derived table that looks outside is not supported yet",
                sql=self.binder.whole.sql,
                at=span(node),
                hint="write it as a join",
            )
        if not node.alias:
            node.set("alias", exp.to_identifier(self.binder.whole.names.spare("~"), quoted=True))
        spelled = [column.name for column in node.args.get("columns") or ()]
        if spelled and len(spelled) != len(answer.columns):
            raise UnsupportedQuery(
                f"{node.alias} names {len(spelled)} of {len(answer.columns)} columns",
                sql=self.binder.whole.sql,
                at=span(node),
                hint="name all of them",
            )
        return self._leaf(node, node.alias, spelled or [name for name, _ in answer.columns], answer)

    def _leaf(self, node: exp.Expr, alias: str, names: list[str], answer: InnerQuery) -> ScopeTable:
        sql = self.binder.whole.sql
        twice = next((name for name in names if [n.lower() for n in names].count(name.lower()) > 1), None)
        if twice is not None:
            hint = f"give one another name: … AS {twice}_2"
            raise UnsupportedQuery(f"two columns of {alias} are named {twice}", sql=sql, at=span(node), hint=hint)
        relation, bounds = named(self.binder.whole.dialect, answer, self.binder.whole.names.prefix(alias), names)
        self.leaves[id(node)] = relation
        self.order = answer.order
        return ScopeTable(alias, tuple(zip(names, bounds, strict=True)))

    # USING and NATURAL

    def _joined(self, node: Joined, left: _Side, right: _Side) -> _Side:
        if node.args.get("natural"):
            self._make_explicit(node, left, right)
        names = [name.name for name in node.args.get("using") or ()]
        conditions: list[Expr] = []
        shared = {**left.shared, **right.shared}
        for name in names:
            mine, theirs = self._one(node, name, left), self._one(node, name, right)
            scope = Scope(self.binder.whole.sql, (), self.binder.whole.params)
            conditions.append(compare(scope, "=", mine[1], theirs[1], span(node)).expr)
            shared[name.lower()] = mine[0], self._merged(node, name.lower(), mine[1], theirs[1])
        self.using[id(node)] = conditions
        sources = [_with_merged(source, names) for source in (*left.sources, *right.sources)]
        return _Side(tuple(sources), shared)

    def _make_explicit(self, node: Joined, left: _Side, right: _Side) -> None:
        """NATURAL is USING with every name that both sides have today; a column added later changes nothing."""
        mine = {name.lower() for source in left.sources for name, _ in source.columns}
        common = [name for source in right.sources for name, _ in source.columns if name.lower() in mine]
        node.set("natural", None)
        node.set("using", [exp.to_identifier(name, quoted=True) for name in dict.fromkeys(common)] or None)

    def _one(self, node: Joined, name: str, side: _Side) -> tuple[str, Bound]:
        found = [
            column for source in side.sources if name.lower() not in source.merged and (column := source.find(name))
        ]
        found += [side.shared[name.lower()]] if name.lower() in side.shared else []
        sql = self.binder.whole.sql
        if not found:
            message = f"cannot join using column {name}: it is not in both tables"
            raise SqlError(message, sql=sql, at=span(node.args["using"][0]) or span(node))
        if len(found) > 1 or name.lower() in self.coalesced:
            hint = "write the condition with ON"
            raise UnsupportedQuery(f"USING ({name}) is not clear here", sql=sql, at=span(node), hint=hint)
        return found[0]

    def _merged(self, node: Joined, name: str, left: Bound, right: Bound) -> Bound:
        match node.args["kind"]:
            case "right":
                self.coalesced.add(name)
                return right
            case "full":
                self.coalesced.add(name)
                type = common_type([left.expr.type, right.expr.type])
                return Bound(Call("coalesce", (left.expr, right.expr), type))
            case _:
                return left

    # Relations

    def _relation(self, node: exp.Expr, scope: Scope, padded: bool, deferred: list[Joined]) -> Relation:
        if not isinstance(node, Joined):
            return self.leaves[id(node)]
        kind = node.args["kind"]
        left_padded, right_padded = _PADDED[kind]
        left = self._relation(node.this, scope, padded or left_padded, deferred)
        right = self._right(node.expression, scope, padded or right_padded, deferred)
        conditions = list(self.using[id(node)])
        on = node.args.get("on")
        if on is not None and kind == "inner" and not padded:
            deferred.append(node)
        elif on is not None:
            conditions.append(bind_expr(scope, on).expr)
        joined = Join(kind, left, right, chain("and", conditions) if conditions else None)
        self._check_reach(node, joined)
        return joined

    def _right(self, node: exp.Expr, scope: Scope, padded: bool, deferred: list[Joined]) -> Relation:
        """Joins in parentheses know only each other."""
        if not isinstance(node, Joined):
            return self._relation(node, scope, padded, deferred)
        side = self.sides[id(node)]
        return self._relation(node, replace(scope, sources=side.sources, shared=side.shared), True, deferred)

    def _check_reach(self, node: Joined, joined: Join) -> None:
        seen = {column.name for column in columns_of(joined)}
        if not names_in(joined.on) <= seen:
            raise UnsupportedQuery(
                "an ON clause that looks beyond its two tables is not supported yet",
                sql=self.binder.whole.sql,
                at=span(node.args["on"]),
                hint="put the condition in WHERE",
            )


class _Plain:
    """ON of outer joins: expressions over columns, no more."""

    def aggregate(self, scope: Scope, node: exp.Anonymous) -> Bound:
        raise scope.error(f"misuse of aggregate: {node.name.lower()}()", span(node))

    def scalar(self, scope: Scope, node: exp.Subquery) -> Bound:
        raise self._refused(scope, node)

    def exists(self, scope: Scope, node: exp.Exists) -> Bound:
        raise self._refused(scope, node)

    def contains(self, scope: Scope, node: exp.In, needle: Bound) -> Bound:
        raise self._refused(scope, node)

    def _refused(self, scope: Scope, node: exp.Expr) -> UnsupportedQuery:
        return scope.refusal("a subquery in ON of an outer join is not supported yet", span(node), "join the subquery")


_PLAIN = _Plain()


def scanned(dialect: Dialect, table: Table, prefix: str) -> Scan:
    columns = tuple(
        RelColumn(f"{prefix}.{column.name}", column.type, *dialect.types.scanned(column), column.declared)
        for column in table.columns
    )
    return Scan(table.name, table.names, columns, tuple(f"{prefix}.{name}" for name in table.key))


def named(dialect: Dialect, answer: InnerQuery, prefix: str, names: list[str]) -> tuple[Relation, list[Bound]]:
    """The answer's relation with a column for each result, and the references to them. Columns keep their names."""
    if all(_passes(bound) for _, bound in answer.columns):
        return answer.relation, [Bound(bound.expr, _own(bound)) for _, bound in answer.columns]
    kept = columns_of(answer.relation)
    outputs = [Output(column.name, reference(column)) for column in kept]
    columns, bounds = list(kept), []
    for name, (_, bound) in zip(names, answer.columns, strict=True):
        if not _passes(bound):
            columns.append(renamed(dialect, bound, f"{prefix}.{name}"))
            outputs.append(Output(columns[-1].name, bound.expr))
            bounds.append(_bound(columns[-1]))
        else:
            bounds.append(Bound(bound.expr, _own(bound)))
    return Project(answer.relation, tuple(outputs), tuple(columns)), bounds


def _passes(bound: Bound) -> bool:
    return isinstance(bound.expr, ColumnRef) and (bound.collating.name or "BINARY") == bound.expr.collation


def _own(bound: Bound) -> Collating:
    """Seen from outside, a column of a derived table always has a collation, and never an explicit one."""
    return Collating(bound.collating.name or "BINARY")


def _bound(column: RelColumn) -> Bound:
    return Bound(reference(column), Collating(column.collation))


def _with_merged(source: ScopeTable, names: list[str]) -> ScopeTable:
    mine = {name.lower() for name in names if source.find(name)}
    return replace(source, merged=source.merged | mine)


def starred(
    sources: tuple[ScopeTable, ...], shared: Shared, only: str | None
) -> Iterator[tuple[str, ScopeTable | None]]:
    """What `*` or `a.*` stands for: names, and the table to qualify them with; merged columns come once."""
    seen: set[str] = set()
    for source in sources:
        if only is not None and source.name.lower() != only.lower():
            continue
        for name, _ in source.columns:
            merged = only is None and name.lower() in source.merged
            if not merged:
                yield name, source
            elif name.lower() not in seen:
                seen.add(name.lower())
                yield shared[name.lower()][0], None
