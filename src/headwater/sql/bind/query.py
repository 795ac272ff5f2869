"""A whole query over a relation: every SELECT in it bound, then results, order and frame of the outermost.

Queries inside it are answered here too: as bags of rows, as sets, or for whether they have a row at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.model.value import Type, Value
from headwater.sql.bind.clauses import BoundSelect, Common, Environment, InnerQuery, Named, Purpose, Whole
from headwater.sql.bind.column_names import reference, renamed
from headwater.sql.bind.group_by import over_no_rows, scans
from headwater.sql.bind.limit import is_constant, limit, offset, ordinal
from headwater.sql.bind.order_by import Term, distinct_terms, result_terms, user_terms
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.bind.select import Select, lifted_columns
from headwater.sql.bind.set_operations import combined, listed_values
from headwater.sql.ir.expr import Const, Expr, OrderKey, Output
from headwater.sql.ir.free_columns import is_closed
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Distinct, Project, Relation, RelColumn, Top, columns_of
from headwater.sql.ir.walk import names_in, substituted
from headwater.sql.rewrite.prune_columns import pruned
from headwater.sql.syntax.canonical_text import Syntax
from headwater.sql.syntax.inline_parameters import with_literals
from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.parse import Parsed
from headwater.sql.syntax.span import span


def bind_whole(parsed: Parsed, tables: Mapping[str, Table], params: Params, lift_scalars: bool = True) -> Query:
    if parsed.select.find(exp.Table) is None:
        raise _changeless(parsed)
    with_literals(parsed.select, params)
    binder = Queries(Whole(parsed.sql, tables, params, lift_scalars=lift_scalars))
    rows = binder.outermost(parsed.select)
    if not any(scans(rows.relation)):
        raise _changeless(parsed)
    _refuse_duplicates(parsed, rows)
    framed = bool(parsed.select.args.get("limit"))
    terms = rows.terms() if rows.order or framed else []
    parsed.select.set("order", exp.Order(expressions=[term.written() for term in terms]) if terms else None)
    order = tuple(term.key for term in terms)
    outputs = tuple(Output(name, bound.expr) for name, bound in rows.results)
    where = tuple(conjunct for conjunct, _ in rows.liftable)
    used = names_in(*(output.expr for output in outputs), *where, *(key.expr for key in order))
    nothing = Scope(parsed.sql, (), params)
    return Query(
        sql=parsed.sql,
        outputs=outputs,
        relation=pruned(rows.relation, used),
        syntax=Syntax(parsed.select, params, {_column(expr): node for expr, node in rows.liftable}, rows.aggregates),
        where=where,
        order=order,
        user_keys=len(rows.order),
        framed=framed,
        limit=limit(nothing, parsed.select.args.get("limit")),
        offset=offset(nothing, parsed.select.args.get("offset")),
        empty=rows.empty,
    )


def _changeless(parsed: Parsed) -> UnsupportedQuery:
    bare = isinstance(parsed.select, exp.Select) and not parsed.select.args.get("from_")
    what = "a SELECT without FROM" if bare else "a query without tables"
    hint = "add FROM and a table"
    return UnsupportedQuery(f"{what} never changes", sql=parsed.sql, at=span(parsed.select), hint=hint)


def _column(conjunct: Expr) -> str:
    return next(iter(names_in(conjunct)))


def _refuse_duplicates(parsed: Parsed, rows: Rows) -> None:
    names = [name for name, _ in rows.results]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        place = [at for at, name in enumerate(names) if name == twice][1]
        at = span(parsed.select.expressions[place]) if isinstance(parsed.select, exp.Select) else None
        hint = f"give one another name: … AS {twice}_2"
        raise UnsupportedQuery(f"two result columns are named {twice}", sql=parsed.sql, at=at, hint=hint)


@dataclass(frozen=True, slots=True)
class Rows:
    """A query with DISTINCT and set operations done, its order still to come. `ties` is asked only where it counts."""

    relation: Relation
    results: tuple[Named, ...]
    order: tuple[Term, ...]
    ties: Callable[[], Iterable[Term]]
    correlated: tuple[Expr, ...] = ()
    liftable: tuple[tuple[Expr, exp.Expr], ...] = ()
    empty: tuple[tuple[str, Value], ...] | None = None
    aggregates: frozenset[str] = frozenset()

    def terms(self) -> list[Term]:
        return distinct_terms([*self.order, *self.ties()]) or self._any_terms()

    def _any_terms(self) -> list[Term]:
        """One row alone is in any order; but a frame must have one."""
        numbered = enumerate(self.results, 1)
        usable = [(number, bound.expr) for number, (_, bound) in numbered if not is_constant(bound.expr)]
        return [Term(OrderKey(expr), exp.Literal.number(number)) for number, expr in usable[:1]]


@dataclass(slots=True)
class Queries:
    """The `Binder`. `open` are the common tables being bound: one that meets itself is recursive.

    `vague` are columns of compound queries whose affinity SQLite leaves open: they cannot be compared.
    """

    whole: Whole
    open: set[int] = field(default_factory=set)
    vague: set[str] = field(default_factory=set)

    def outermost(self, node: exp.Expr) -> Rows:
        around = self._around(node, {})
        if isinstance(node, exp.Select):
            return self._set_of(Select(self, node, around, None, outermost=True).bind(), "rows")
        return self._compound(node, around, None)

    def selected(self, node: exp.Select, around: Environment, outer: Scope | None) -> BoundSelect:
        selected = Select(self, node, self._around(node, around), outer).bind()
        self._check_closed(selected.relation, node)
        return selected

    def answer(self, node: exp.Expr, around: Environment, outer: Scope | None, purpose: Purpose = "rows") -> InnerQuery:
        if id(node) in self.open:
            raise self._refused("a recursive common table", node)
        self.open.add(id(node))
        try:
            return self._answered(node, self._around(node, around), outer, purpose)
        finally:
            self.open.remove(id(node))

    def _answered(self, node: exp.Expr, around: Environment, outer: Scope | None, purpose: Purpose) -> InnerQuery:
        if isinstance(node, exp.Select):
            selected = Select(self, node, around, outer).bind()
            if selected.scalar and selected.correlated:
                raise self._refused("a correlated aggregate in IN, EXISTS or FROM", node)
            rows = self._set_of(selected, purpose)
        else:
            rows = self._compound(node, around, outer)
            self._check_clear(rows.results, node)
        self._check_closed(rows.relation, node)
        return self._limited(node, rows, purpose)

    def _around(self, node: exp.Expr, around: Environment) -> Environment:
        """Common tables see each other, and those around them."""
        tables = node.args.get("with_")
        inner: dict[str, Common] = dict(around)
        for common in tables.expressions if tables else ():
            inner[common.alias.lower()] = Common(common, inner)
        return inner

    # DISTINCT

    def _set_of(self, selected: BoundSelect, purpose: Purpose) -> Rows:
        if selected.distinct and (purpose == "rows" or selected.framed):
            return self._distinct(selected)
        return Rows(
            selected.relation,
            selected.results,
            selected.order,
            lambda: selected.ties,
            selected.correlated,
            selected.liftable,
            over_no_rows(selected.aggregates) if selected.scalar and selected.liftable else None,
            frozenset(each.column.name for each in selected.aggregates),
        )

    def _distinct(self, selected: BoundSelect) -> Rows:
        if selected.correlated:
            raise self._refused("DISTINCT in a correlated subquery", selected.node)
        self._check_set("DISTINCT", selected.results, selected.node)
        once: dict[Expr, Named] = {}
        for name, bound in selected.results:
            once.setdefault(bound.expr, (name, bound))
        for column in lifted_columns(selected.liftable):
            once.setdefault(column, (column.name, Bound(column)))
        relation, projected = self._projected(selected.relation, list(once.values()))
        seen: dict[Expr, Expr] = {expr: bound.expr for expr, (_, bound) in zip(once, projected, strict=True)}
        results = tuple((name, Bound(seen[bound.expr], bound.collating)) for name, bound in selected.results)
        columns = {column.name for column in columns_of(relation)}
        order = tuple(Term(_moved(term.key, seen), term.node) for term in selected.order)
        if not names_in(*(term.key.expr for term in order)) <= columns:
            raise self._refused("DISTINCT ordered by what is not selected", selected.node)
        ties = self._ties(selected.node, results)
        return Rows(Distinct(relation), results, order, ties, (), selected.liftable)

    def _check_set(self, word: str, results: Sequence[Named], node: exp.Expr) -> None:
        for name, bound in results:
            if not self.whole.dialect.types.looks_alike(bound):
                raise UnsupportedQuery(
                    f"{word} of {name}, whose equal values may look different, has no one answer",
                    sql=self.whole.sql,
                    at=span(node),
                    hint="add COLLATE BINARY, or CAST to one type",
                )

    def _ties(self, node: exp.Expr, results: Sequence[Named]) -> Callable[[], Iterable[Term]]:
        dialect = self.whole.dialect
        return lambda: result_terms(dialect, results, lambda what, hint: self._refused(what, node, hint))

    def _projected(
        self, relation: Relation, results: Sequence[Named], types: Sequence[Type | None] = ()
    ) -> tuple[Relation, tuple[Named, ...]]:
        """Exactly the results, in their order. A column keeps its name where that is still free."""
        outputs: list[Output] = []
        columns: list[RelColumn] = []
        for place, (_, bound) in enumerate(results):
            column = self._result_column(bound, {output.name for output in outputs})
            if types:
                column = replace(column, type=types[place] or column.type)
            columns.append(column)
            outputs.append(Output(column.name, bound.expr))
        project = Project(relation, tuple(outputs), tuple(columns))
        named = zip(results, columns, strict=True)
        return project, tuple((name, Bound(reference(column), bound.collating)) for (name, bound), column in named)

    def _result_column(self, bound: Bound, taken: set[str]) -> RelColumn:
        own = getattr(bound.expr, "name", "") if not isinstance(bound.expr, Const) else ""
        passing = own and renamed(self.whole.dialect, bound, own)
        if isinstance(passing, RelColumn) and passing.name not in taken and reference(passing) == bound.expr:
            return passing
        return renamed(self.whole.dialect, bound, self.whole.names.fresh("col"))

    # Set operations and VALUES

    def _compound(self, node: exp.Expr, around: Environment, outer: Scope | None) -> Rows:
        written = [item.copy() for item in _items(node)]
        if isinstance(node, exp.Values):
            relation, results = listed_values(self.whole, node)
        else:
            assert isinstance(node, exp.SetOperation)
            relation, results = self._combined(node, around, outer)
        spelled = {name.lower(): exp.Null() for name, _ in reversed(results)}
        scope = Scope(self.whole.sql, (), self.whole.params, spelled=spelled)
        self._check_terms(node, spelled, written)
        order = tuple(user_terms(scope, node.args.get("order"), results))
        self._check_collated(node, order, results)
        return Rows(relation, results, order, self._ties(node, results))

    def _check_collated(self, node: exp.Expr, order: Sequence[Term], results: Sequence[Named]) -> None:
        """SQLite (3.40 at least) loses equal rows of UNION ALL SELECT DISTINCT after a set, ordered by COLLATE."""
        collated = any(isinstance(term.node, exp.Collate) for term in order)
        collated = collated or any((bound.collating.name or "BINARY") != "BINARY" for _, bound in results)
        if collated and node.args.get("distinct") is False and _adds_distinct(node):
            raise self._refused("UNION ALL with SELECT DISTINCT after another set operation, collated", node)

    def _check_terms(self, node: exp.Expr, spelled: Mapping[str, exp.Expr], items: Sequence[exp.Expr]) -> None:
        """A compound query is ordered by its results; SQLite also finds them by how another side writes them."""
        order = node.args.get("order")
        for ordered in order.expressions if order else ():
            term = ordered.this.this if isinstance(ordered.this, exp.Collate) else ordered.this
            is_result = isinstance(term, exp.Column) and term.name.lower() in spelled
            if is_result or ordinal(self.whole.dialect, term) is not None:
                continue
            hint = "name a result column, or its number"
            if any(term in (item, item.this) or item.alias == term.name != "" for item in items):
                raise self._refused("ordering a compound query by a side's own words", ordered, hint)
            message = "ORDER BY of a compound query takes its results"
            raise SqlError(message, sql=self.whole.sql, at=span(ordered), hint=hint)

    def _combined(
        self, node: exp.SetOperation, around: Environment, outer: Scope | None
    ) -> tuple[Relation, tuple[Named, ...]]:
        sides = [self._side(side, around, outer) for side in (node.this, node.expression)]
        word = type(node).__name__.upper()
        if len(sides[0].columns) != len(sides[1].columns):
            message = (
                f"the SELECTs left and right of {word} have {len(sides[0].columns)} and {len(sides[1].columns)} columns"
            )
            raise SqlError(message, sql=self.whole.sql, at=span(node))
        relation, columns = combined(self.whole, node, sides, self._projected, self.vague)
        if node.args.get("distinct") or not isinstance(node, exp.Union):
            for results in (*(side.columns for side in sides), columns):
                self._check_set(word, results, node)
        return relation, columns

    def _check_clear(self, results: Sequence[Named], node: exp.Expr) -> None:
        for name, bound in results:
            if names_in(bound.expr) & self.vague:
                raise UnsupportedQuery(
                    f"{name} would compare in two ways, as the sides of this compound query do",
                    sql=self.whole.sql,
                    at=span(node),
                    hint="CAST both sides to one type",
                )

    def _side(self, node: exp.Expr, around: Environment, outer: Scope | None) -> InnerQuery:
        if isinstance(node, exp.Select):
            answer = self.answer(node, around, outer)
        else:
            rows = self._compound(node, around, outer)
            answer = InnerQuery(rows.relation, rows.results)
        if answer.correlated:
            raise self._refused("a correlated compound query", node)
        return answer

    # Order and limit inside

    def _limited(self, node: exp.Expr, rows: Rows, purpose: Purpose) -> InnerQuery:
        written = node.args.get("limit")
        if not written:
            node.set("order", None)
            return InnerQuery(rows.relation, rows.results, rows.correlated)
        scope = Scope(self.whole.sql, (), self.whole.params)
        count, skipped = limit(scope, written), offset(scope, node.args.get("offset"))
        if purpose == "existence" and count != 0 and not skipped:
            return InnerQuery(rows.relation, rows.results, rows.correlated)
        if rows.correlated:
            raise self._refused("LIMIT in a correlated subquery", node)
        terms = rows.terms()
        node.set("order", exp.Order(expressions=[term.written() for term in terms]) if terms else None)
        order = tuple(term.key for term in terms)
        if count is None and not skipped:
            return InnerQuery(rows.relation, rows.results, (), order)
        return InnerQuery(Top(rows.relation, order, count, skipped), rows.results, (), order)

    def _check_closed(self, relation: Relation, node: exp.Expr) -> None:
        if not is_closed(relation):
            raise self._refused("a subquery correlated in this way", node)

    def _refused(self, what: str, node: exp.Expr, hint: str = "write it as a join") -> UnsupportedQuery:
        return UnsupportedQuery(f"{what} is not supported yet", sql=self.whole.sql, at=span(node), hint=hint)


def _adds_distinct(node: exp.Expr) -> bool:
    """… UNION|INTERSECT|EXCEPT … UNION ALL SELECT DISTINCT …"""
    before = node.this.find_all(exp.SetOperation) if isinstance(node.this, exp.SetOperation) else ()
    return bool(node.expression.args.get("distinct")) and any(each.args.get("distinct") for each in before)


def _items(node: exp.Expr) -> Iterator[exp.Expr]:
    """The result columns of every side."""
    for side in (node.this, node.expression) if isinstance(node, exp.SetOperation) else ():
        yield from _items(side) if isinstance(side, exp.SetOperation) else side.expressions


def _moved(key: OrderKey, seen: Mapping[Expr, Expr]) -> OrderKey:
    return replace(key, expr=substituted(key.expr, seen))
