"""Rows of one table, each by itself: templates over the table, with no operator beneath.

A query is one where its relation is a bare scan, perhaps filtered, of the table in its FROM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.plan.derived import asks_of, written
from headwater.plan.fingerprint import template_id
from headwater.plan.template import Instance, Selector, Template
from headwater.sql.contracts.syntax import SelectWriter
from headwater.sql.ir.conjunction import chain, parts
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.predicate import Op
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import Filter, Relation, Scan
from headwater.sql.ir.walk import renamed_columns


@dataclass(frozen=True, slots=True)
class OneTable:
    """A query over the columns of `table`. `liftable` are the conjuncts that may be lifted, `fixed` the others, in the
    order in which they are tested; `columns` are the names that columns have in the query's syntax."""

    query: Query
    table: Table
    liftable: tuple[Expr, ...]
    fixed: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...]
    columns: dict[str, str]

    def template(self, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr]) -> Template:
        """`lifted`: the columns of keys first, then those of selectors; `rest`: of `liftable` what is not lifted."""
        writer = self.query.syntax.params.dialect.syntax.select_writer
        sql = self._completed(lifted, rest) if writer is None else self._rewritten(writer, lifted, rest)
        where = (*rest, *self.fixed)
        return Template(
            id=template_id(self.table.name, sql),
            sql=sql,
            table=self.table.name,
            keys=tuple(name for name, op in lifted if op == "="),
            where=chain("and", where) if where else None,
            outputs=self.outputs,
            order=self.order,
            framed=self.query.framed,
            dialect=self.table.dialect,
            selectors=tuple(Selector(name, op) for name, op in lifted if op != "="),
        )

    def _completed(self, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr]) -> str:
        """The user's own text, with the whole order."""
        named = [(self.columns[name], op) for name, op in lifted]
        asked = [replace(ask, column=replace(ask.column, name=self.columns[ask.column.name])) for ask in asks_of(rest)]
        return self.query.syntax.text(named, asked)

    def _rewritten(self, writer: SelectWriter, lifted: Sequence[tuple[str, Op]], rest: Sequence[Expr]) -> str:
        """From what was bound, with the user's order."""
        holes = [writer.comparison(*asked, f":p{number}") for number, asked in enumerate(lifted, 1)]
        conditions = [*holes, *map(writer.condition, rest)]
        frame = "LIMIT :limit OFFSET :offset" if self.query.framed else ""
        return writer.select(self.table.name, self.outputs, conditions, self.order[: self.query.user_keys], frame)

    def notes(self) -> Iterator[str]:
        identity = ", ".join(self.table.identity)
        if self.query.framed and not self.query.user_keys:
            yield f"LIMIT without ORDER BY: rows are taken in the order of {identity}"
        elif self.order:
            yield f"ties are ordered by {identity}"
        if not self.table.key:
            yield f"{self.table.name} has no key: equal rows are counted, not told apart"
        for column in self.table.columns:
            if column.type is Type.ANY:
                yield f"{self.table.name}.{column.name} holds values of several types"


def one_table(query: Query, tables: Sequence[Table]) -> OneTable | None:
    """None where the query needs its relation."""
    scan = _bare_scan(query.relation)
    if scan is None or not _is_from_table(query.syntax.tree):
        return None
    names = {column.name: name for column, name in zip(scan.columns, scan.names, strict=True)}
    where = tuple(renamed_columns(conjunct, names) for conjunct in query.where)
    filters = tuple(renamed_columns(conjunct, names) for conjunct in _filters(query.relation))
    rewritten = query.syntax.params.dialect.syntax.select_writer is not None
    return OneTable(
        query,
        next(table for table in tables if table.name == scan.table),
        (*where, *filters) if rewritten else where,
        () if rewritten else filters,
        tuple(Output(output.name, renamed_columns(output.expr, names)) for output in query.outputs),
        tuple(replace(key, expr=renamed_columns(key.expr, names)) for key in query.order),
        {name: column for column, name in names.items()},
    )


def _bare_scan(relation: Relation) -> Scan | None:
    if isinstance(relation, Filter):
        return _bare_scan(relation.input)
    return relation if isinstance(relation, Scan) else None


def _filters(relation: Relation) -> Iterator[Expr]:
    """The lowest first: it is tested first."""
    if isinstance(relation, Filter):
        yield from _filters(relation.input)
        yield from parts("and", relation.predicate)


def _is_from_table(tree: exp.Expr) -> bool:
    """A derived table or a common one tells rows apart in its own way."""
    return isinstance(tree.args.get("from_"), exp.Table) and not tree.args.get("with_")


def writer_of(template: Template) -> SelectWriter | None:
    """What writes the template's text from its parts. None where the text is the user's own, completed: then it is
    bound to the columns that its tables had."""
    return DIALECTS[template.dialect].syntax.select_writer if template.relation is None else None


def effective_select(writer: SelectWriter, template: Template, instance: Instance) -> str:
    pairs = zip(template.lifted, written(template, instance), strict=True)
    where = [writer.comparison(*asked, text) for asked, text in pairs]
    if template.where is not None:
        where.append(writer.condition(template.where))
    limit = DIALECTS[template.dialect].syntax.all_rows() if instance.limit is None else instance.limit
    frame = f"LIMIT {limit} OFFSET {instance.offset}" if template.framed else ""
    return writer.select(template.table, template.outputs, where, template.order, frame)
