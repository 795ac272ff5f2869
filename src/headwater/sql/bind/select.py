"""One SELECT, bound clause by clause into a relation: FROM, WHERE, GROUP BY, HAVING, then results and order.

The syntax tree is completed on the way: `*` is spelled out, columns get their tables. Never looks at the query around
but through its scope: conjuncts that speak of it are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from headwater.model.errors import UnsupportedQuery
from headwater.sql.bind.aggregates import Gathering
from headwater.sql.bind.clauses import Attachment, Binder, BoundSelect, Environment, Named, Whole
from headwater.sql.bind.column_names import reference
from headwater.sql.bind.conditions import (
    NOTHING_OPEN,
    OpenColumns,
    WhereConditions,
    all_of,
    compared_node,
    split_conjuncts,
)
from headwater.sql.bind.expression import bind_expr, is_aggregate
from headwater.sql.bind.from_clause import From, FromClause
from headwater.sql.bind.group_by import Aggregates, Grouping, calls_in, is_concatenated
from headwater.sql.bind.limit import is_constant, ordinal
from headwater.sql.bind.order_by import Term, distinct_terms, user_terms
from headwater.sql.bind.results import bound_results, spell_out, spelled_results
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.ir.collation import COLLATIONS, Collating
from headwater.sql.ir.conjunction import parts
from headwater.sql.ir.expr import Call, ColumnRef, Expr
from headwater.sql.ir.predicate import asks
from headwater.sql.ir.relation import Aggregate, Filter, Relation, RelColumn, columns_of
from headwater.sql.ir.walk import names_in, substituted
from headwater.sql.rewrite.decorrelate import correlation
from headwater.sql.rewrite.push_down import placed
from headwater.sql.syntax.span import span


@dataclass(slots=True)
class Select:
    """The work on one SELECT; `bind` does it."""

    binder: Binder
    node: exp.Select
    around: Environment
    outer: Scope | None
    outermost: bool = False
    correlated: list[Expr] = field(default_factory=list)
    liftable: list[tuple[Expr, exp.Expr]] = field(default_factory=list)

    def bind(self) -> BoundSelect:
        if any(is_concatenated(part) for part in self._own_parts()):
            self._order_source()
        source = FromClause(self.binder, self.around, self.outer).bind(self.node.args.get("from_"))
        local = frozenset(column.name for column in columns_of(source.relation))
        scope = Scope(self.whole.sql, source.sources, self.whole.params, shared=source.shared, outer=self.outer)
        spell_out(self.whole, self.node, source)
        grouped = self._is_grouped()
        inner = Gathering(self.binder, self.around, scope)
        aggregates = Aggregates(self.whole, local, source.order)
        over = Gathering(self.binder, self.around, scope, aggregates if grouped else None, inner)
        results = tuple(bound_results(replace(scope, clause=over), self.node))
        scope = replace(scope, spelled=spelled_results(self.whole.dialect, self.node))
        # GROUP BY and ORDER BY do not see the query around.
        keys = list(self._keys(replace(scope, clause=inner, outer=None), results)) if grouped else []
        passing = self._passing(local, grouped, keys, results)
        equal = self._equal(columns_of(source.relation), passing, grouped, results, over)
        relation = self._where(scope, source, OpenColumns(passing, equal))
        relation = reduce(_attached, inner.attachments, relation)
        having = self._having(replace(scope, clause=over), passing, aggregates)
        order = self._order(replace(scope, clause=over, outer=None), results)
        shape = _Shape(relation, results, having, order, over.attachments)
        shape, ties = self._group(shape, keys, aggregates.found, local) if grouped else (shape.attached(), ())
        return BoundSelect(
            self.node,
            replace(scope, clause=over),
            shape.relation,
            shape.results,
            shape.order,
            ties,
            tuple(self.correlated),
            tuple(self.liftable),
            tuple(aggregates.found),
            grouped,
            self._is_scalar(grouped),
        )

    def _order(self, scope: Scope, results: Sequence[Named]) -> tuple[Term, ...]:
        return tuple(distinct_terms(user_terms(scope, self.node.args.get("order"), results)))

    @property
    def whole(self) -> Whole:
        return self.binder.whole

    def _refuse(self, message: str, node: exp.Expr, hint: str | None = None) -> UnsupportedQuery:
        return UnsupportedQuery(message, sql=self.whole.sql, at=span(node) or span(self.node), hint=hint)

    def _own_parts(self) -> Iterator[exp.Expr]:
        yield from self.node.expressions
        for clause in ("having", "order"):
            if self.node.args.get(clause):
                yield self.node.args[clause]

    def _is_grouped(self) -> bool:
        aggregated = any(
            is_aggregate(self.whole.dialect, call) for part in self._own_parts() for call in calls_in(part)
        )
        having = self.node.args.get("having")
        if having and not aggregated and not self.node.args.get("group"):
            raise Scope(self.whole.sql, (), self.whole.params).error(
                "HAVING needs GROUP BY or an aggregate", span(having), "use WHERE"
            )
        return aggregated or bool(self.node.args.get("group"))

    def _order_source(self) -> None:
        """group_concat takes rows as they come: let a table's rows come in a total order."""
        table = self.node.args.get("from_")
        if isinstance(table, exp.Table) and table.name.lower() not in self.around:
            name = exp.to_identifier(table.alias or table.name, quoted=True)
            every = exp.Select(expressions=[exp.Star()], from_=exp.Table(this=table.this.copy(), alias=name.copy()))
            table.replace(exp.Subquery(this=every, alias=name))
        source = self.node.args.get("from_")
        if isinstance(source, exp.Subquery) and not source.this.args.get("limit"):
            source.this.set("limit", exp.Limit(expression=exp.Neg(this=exp.Literal.number(1))))

    # WHERE

    def _passing(
        self, local: frozenset[str], grouped: bool, keys: Sequence[Bound], results: Sequence[Named]
    ) -> frozenset[str]:
        """The columns that reach the relation's top unchanged."""
        if not self.outermost:
            return frozenset()
        passing = local
        if grouped:
            passing &= _columns(keys)
        if self.node.args.get("distinct"):
            passing &= _columns(bound for _, bound in results)
        return passing

    def _equal(
        self,
        columns: Sequence[RelColumn],
        passing: frozenset[str],
        grouped: bool,
        results: Sequence[Named],
        over: Gathering,
    ) -> frozenset[str]:
        """The columns that WHERE may ask for by one value: those that pass, and those that can be grouped by besides,
        for rows of one value make the same groups, or the same set, whether others are grouped beside them or not."""
        distinct = bool(self.node.args.get("distinct"))
        if not self.outermost or grouped == distinct:
            return passing
        if self._is_scalar(grouped) and not (self._is_bare(over) and _are_aggregates(results, columns)):
            return passing
        return passing | {column.name for column in columns if self._can_group(column)}

    def _can_group(self, column: RelColumn) -> bool:
        """Its equal values look the same."""
        return self.whole.dialect.types.looks_alike(Bound(reference(column), Collating(column.collation)))

    def _is_scalar(self, grouped: bool) -> bool:
        return grouped and not self.node.args.get("group")

    def _is_bare(self, over: Gathering) -> bool:
        """Nothing stands over the one row of a scalar aggregate: then it is known what it is over nothing."""
        clauses = ("having", "order", "limit", "offset")
        return self.whole.lift_scalars and not over.attachments and not any(map(self.node.args.get, clauses))

    def _where(self, scope: Scope, source: From, open: OpenColumns) -> Relation:
        gathering = Gathering(self.binder, self.around, scope)
        found = WhereConditions(self.binder, self.around, replace(scope, clause=gathering), gathering)
        for joined in source.deferred:
            conditions = split_conjuncts(scope, joined.args["on"])
            joined.set("on", all_of([on for on in conditions if found.add(on, NOTHING_OPEN, self._take)]))
        where = self.node.args.get("where")
        conditions = split_conjuncts(scope, where.this) if where else []
        self._keep("where", exp.Where, [each for each in conditions if found.add(each, open, self._take)])
        relation = placed(source.relation, self._set_aside(source.relation, found.plain))
        relation = reduce(_attached, [*gathering.attachments, *found.semis], relation)
        return placed(relation, self._set_aside(relation, found.late))

    def _keep(self, name: str, clause: type[exp.Expr], kept: Sequence[exp.Where]) -> None:
        condition = all_of(kept)
        self.node.set(name, clause(this=condition) if condition is not None else None)

    def _take(self, conjunct: Expr, node: exp.Expr, open: OpenColumns) -> bool:
        """Leaves what asks of a column by constants to the plan, which may make parameters of them."""
        asked, written = asks(conjunct), compared_node(node)
        if written is None or not all(open.to(ask) for ask in asked):
            return False
        if asked:
            self.liftable.append((conjunct, written))
        return bool(asked)

    def _set_aside(self, relation: Relation, conjuncts: Sequence[Expr]) -> list[Expr]:
        seen = {column.name for column in columns_of(relation)}
        self.correlated += [conjunct for conjunct in conjuncts if not names_in(conjunct) <= seen]
        return [conjunct for conjunct in conjuncts if names_in(conjunct) <= seen]

    # GROUP BY and HAVING

    def _keys(self, scope: Scope, results: Sequence[Named]) -> Iterator[Bound]:
        group = self.node.args.get("group")
        for node in list(group.expressions) if group else ():
            number = ordinal(scope.dialect, node)
            if isinstance(node, exp.Placeholder):
                raise self._refuse("grouping by a parameter is not supported", node, "leave it out")
            if number is None:
                yield bind_expr(scope, node)
            elif 1 <= number <= len(results):
                yield self._result_key(scope, node, number)
            else:
                raise scope.error(f"GROUP BY {number}: there are {len(results)} result columns", span(node))

    def _result_key(self, scope: Scope, node: exp.Expr, number: int) -> Bound:
        item = self.node.expressions[number - 1]
        return bind_expr(scope, node.replace((item.this if isinstance(item, exp.Alias) else item).copy()))

    def _having(self, scope: Scope, passing: frozenset[str], aggregates: Aggregates) -> tuple[Expr, ...]:
        """What is asked of a key may be asked of the rows as well, and what is asked of an aggregate, of the groups:
        it can be lifted."""
        found: list[Expr] = []
        kept = []
        written = self.node.args.get("having")
        for having in split_conjuncts(scope, written.this) if written else ():
            conjuncts = list(parts("and", bind_expr(scope, having.this).expr))
            open = passing | (aggregates.names if self._shows_groups() else set())
            if len(conjuncts) > 1 or not self._take(conjuncts[0], having.this, OpenColumns(open, open)):
                kept.append(having)
                found += conjuncts
        self._keep("having", exp.Having, kept)
        return tuple(found)

    def _shows_groups(self) -> bool:
        """Every group is a row of the whole result."""
        return self.outermost and bool(self.node.args.get("group")) and not self.node.args.get("distinct")

    def _group(
        self, shape: _Shape, keys: Sequence[Bound], aggregates: Sequence[Aggregate], local: frozenset[str]
    ) -> tuple[_Shape, tuple[tuple[exp.Expr, Bound], ...]]:
        group = self.node.args.get("group")
        nodes = list(group.expressions) if group else []
        self._check_order_of(nodes)
        grouping = Grouping(self.whole, shape.relation, span(self.node))
        for bound, node in zip(keys, nodes, strict=True):
            grouping.add(bound, span(node) or span(self.node))
        ties = tuple(_grouped_by(keys, nodes, grouping))
        for column in lifted_columns(self.liftable):
            if column.name in local:
                grouping.add(Bound(column), span(self.node))
        self.correlated = [self._correlated_key(each, grouping, local) for each in self.correlated]
        grouping.cover(shape.exprs, local, span(self.node))
        regrouped = shape.moved(grouping.replacements)
        relation: Relation = grouping.over(shape.relation, aggregates)
        relation = reduce(_attached, regrouped.attachments, relation)
        filtered = reduce(Filter, regrouped.having, relation)
        return replace(regrouped, relation=filtered, attachments=[], having=()), ties

    def _check_order_of(self, keys: Sequence[exp.Expr]) -> None:
        """Written into the order, a subquery among the keys would be one of its own when the text is read again."""
        ordered = self.node.args.get("order") or self.node.args.get("limit")
        found = next((key for key in keys if key.find(exp.Query)), None) if ordered else None
        if found is not None:
            raise self._refuse("an order among groups of a subquery is not supported yet", found, "group by a column")

    def _correlated_key(self, conjunct: Expr, grouping: Grouping, local: frozenset[str]) -> Expr:
        """A group for each value the query around may ask for."""
        found = correlation(conjunct, local)
        if found is None:
            raise self._refuse("a correlated group is only supported by equality", self.node, "join and group")
        mine, theirs = found
        key = grouping.add(Bound(mine), span(self.node))
        return Call("=", (key, theirs), conjunct.type, "BINARY")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What stands over the rows and is moved over the groups."""

    relation: Relation
    results: tuple[Named, ...]
    having: tuple[Expr, ...]
    order: tuple[Term, ...]
    attachments: list[Attachment]

    @property
    def exprs(self) -> list[Expr | None]:
        return [
            *(bound.expr for _, bound in self.results),
            *self.having,
            *(term.key.expr for term in self.order),
            *(attachment.on for attachment in self.attachments),
        ]

    def attached(self) -> _Shape:
        return replace(self, relation=reduce(_attached, self.attachments, self.relation), attachments=[])

    def moved(self, replacements: dict[Expr, Expr]) -> _Shape:
        results = tuple(
            (name, Bound(substituted(bound.expr, replacements), bound.collating)) for name, bound in self.results
        )
        having = tuple(substituted(expr, replacements) for expr in self.having)
        order = tuple(
            Term(replace(term.key, expr=substituted(term.key.expr, replacements)), term.node) for term in self.order
        )
        return _Shape(self.relation, results, having, order, [each.moved(replacements) for each in self.attachments])


def _attached(relation: Relation, attachment: Attachment) -> Relation:
    return attachment.over(relation)


def _are_aggregates(results: Sequence[Named], columns: Sequence[RelColumn]) -> bool:
    """No column stands bare: over nothing it would be NULL, whatever was asked for."""
    return names_in(*(bound.expr for _, bound in results)).isdisjoint(column.name for column in columns)


def lifted_columns(liftable: Iterable[tuple[Expr, exp.Expr]]) -> list[ColumnRef]:
    """Those that the conjuncts ask for, by name: in whatever order they were written."""
    columns = [conjunct.args[0] for conjunct, _ in liftable if isinstance(conjunct, Call)]
    return sorted((one for one in columns if isinstance(one, ColumnRef)), key=lambda one: one.name)


def _columns(bounds: Sequence[Bound] | Iterator[Bound]) -> frozenset[str]:
    return frozenset(bound.expr.name for bound in bounds if isinstance(bound.expr, ColumnRef))


def _grouped_by(
    keys: Sequence[Bound], nodes: Sequence[exp.Expr], grouping: Grouping
) -> Iterator[tuple[exp.Expr, Bound]]:
    """The keys as columns of the groups, and how the text says them."""
    for bound, node in zip(keys, nodes, strict=True):
        if not is_constant(bound.expr) and (bound.collating.name or "BINARY") in COLLATIONS:
            yield node, Bound(grouping.replacements[bound.expr], bound.collating)
