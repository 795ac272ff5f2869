"""Names in reach of an expression: the columns of what stands in FROM, rowids, aliases of the result, parameters.

A subquery's scope leads to the scope around it. Never binds an expression itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from headwater.model.errors import SqlError, UnsupportedQuery
from headwater.model.schema import Table
from headwater.sql.dialect import Dialect
from headwater.sql.ir.collation import NEUTRAL, Collating
from headwater.sql.ir.expr import Expr
from headwater.sql.syntax.parameters import Params
from headwater.sql.syntax.span import Span, span
from headwater.sql.syntax.suggestions import did_you_mean, listed


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression and the collation it would bring into a comparison; the expression itself holds no COLLATE."""

    expr: Expr
    collating: Collating = NEUTRAL


@dataclass(frozen=True, slots=True)
class ScopeTable:
    """One table of FROM. `name` is what columns may be qualified with: the alias, or the table's own name.

    `merged` are the columns that USING made one with those of another table: by themselves they are not found.
    """

    name: str
    columns: tuple[tuple[str, Bound], ...]
    table: Table | None = None
    merged: frozenset[str] = frozenset()

    def find(self, name: str) -> tuple[str, Bound] | None:
        return next((column for column in self.columns if column[0].lower() == name.lower()), None)

    def rowid(self, dialect: Dialect) -> tuple[str, Bound] | None:
        column = dialect.names.rowid(self.table) if self.table else None
        return self.find(column.name) if column else None


class Clause(Protocol):
    """What an expression may hold depends on the clause it stands in: here are aggregates and subqueries."""

    def aggregate(self, scope: Scope, node: exp.Anonymous) -> Bound: ...
    def scalar(self, scope: Scope, node: exp.Subquery) -> Bound: ...
    def exists(self, scope: Scope, node: exp.Exists) -> Bound: ...
    def contains(self, scope: Scope, node: exp.In, needle: Bound) -> Bound: ...


@dataclass(frozen=True, slots=True)
class Scope:
    """`shared` are the columns that USING made one; `spelled` are the aliases of the result, as they were written.

    With `clause` the tree is rewritten as names are found: columns get their table, aliases what they stand for.
    """

    sql: str
    sources: tuple[ScopeTable, ...]
    params: Params
    shared: Mapping[str, tuple[str, Bound]] = field(default_factory=dict)
    spelled: Mapping[str, exp.Expr] = field(default_factory=dict)
    outer: Scope | None = None
    clause: Clause | None = None

    @property
    def dialect(self) -> Dialect:
        return self.params.dialect

    def error(self, message: str, at: Span | None, hint: str | None = None) -> SqlError:
        return SqlError(message, sql=self.sql, at=at, hint=hint)

    def refusal(self, message: str, at: Span | None, hint: str | None = None) -> UnsupportedQuery:
        return UnsupportedQuery(message, sql=self.sql, at=at, hint=hint)

    def resolve(self, node: exp.Column) -> Bound:
        """A column first, then the rowid, then the query around. An alias of the result was put in already."""
        self._check_schema(node)
        found = self._column(node) or self._rowid(node)
        if found is not None:
            return self._rewritten(node, found)
        if self.outer is None:
            raise self._unknown(node)
        name = node.name.lower()
        if name in self.outer.spelled and not node.table and self.outer.named(name) is None:
            hint = "name the column itself"
            raise self.refusal("an alias of the query around a subquery is not supported yet", span(node), hint)
        return self._around(node)

    def _around(self, node: exp.Column) -> Bound:
        assert self.outer is not None
        try:
            return self.outer.resolve(node)
        except SqlError as error:
            # The nearest names make the better hint.
            raise error if isinstance(error, UnsupportedQuery) or not self.sources else self._unknown(node) from None

    def alias(self, node: exp.Column) -> exp.Expr | None:
        """What an alias of the result stands for, where no column has its name."""
        if node.table or node.name.lower() not in self.spelled or not self.dialect.names.sees_alias(node):
            return None
        if self.named(node.name) is not None:
            return None
        return self.spelled[node.name.lower()]

    def named(self, name: str) -> Bound | None:
        """A column of this very scope by its bare name."""
        found = next(self._matching(name, None), None)
        return found[2] if found else None

    def _matching(self, name: str, table: str | None) -> Iterator[tuple[ScopeTable | None, str, Bound]]:
        if table is None and name.lower() in self.shared:
            spelled, bound = self.shared[name.lower()]
            yield None, spelled, bound
        for source in self.sources:
            if table is not None and source.name.lower() != table.lower():
                continue
            found = source.find(name)
            if found and not (table is None and name.lower() in source.merged):
                yield source, *found

    def _column(self, node: exp.Column) -> tuple[ScopeTable | None, str, Bound] | None:
        found = list(self._matching(node.name, node.table or None))
        if len(found) > 1:
            written = f"{node.table}.{node.name}" if node.table else node.name
            choices = ", ".join(f"{source.name}.{node.name}" for source, _, _ in found if source)
            if node.table and any(node.name.lower() in source.merged for source, _, _ in found if source):
                raise self.refusal("two tables of one name are not supported yet", span(node), "give each an alias")
            raise self.error(f"ambiguous column name: {written}", span(node), f"say which: {choices}")
        return found[0] if found else None

    def _check_schema(self, node: exp.Column) -> None:
        if node.db and node.db.lower() != "main":
            raise self.error(f"no such schema: {node.db}", span(node.args["db"]), "only main is known")

    def _rowid(self, node: exp.Column) -> tuple[ScopeTable | None, str, Bound] | None:
        if not self.dialect.names.is_rowid(node.name.lower()):
            return None
        near = [source for source in self.sources if not node.table or source.name.lower() == node.table.lower()]
        if len(near) > 1:
            raise self.refusal(
                f"{node.name} of several tables is not clear", span(node), "say which table's, or its key"
            )
        if not near:
            return None
        found = near[0].rowid(self.dialect)
        if found is None:
            raise self.refusal(
                f"{node.name} is not a column of {near[0].table.name if near[0].table else near[0].name},"
                " and SQLite may renumber it",
                span(node),
                "declare an INTEGER PRIMARY KEY, or select the key",
            )
        return near[0], *found

    def _rewritten(self, node: exp.Column, found: tuple[ScopeTable | None, str, Bound]) -> Bound:
        source, spelled, bound = found
        if self.clause is not None:
            node.set("db", None)
            node.set("this", exp.to_identifier(spelled, quoted=True))
            node.set("table", exp.to_identifier(source.name, quoted=True) if source else None)
        return bound

    def _unknown(self, node: exp.Column) -> SqlError:
        if node.table and not any(source.name.lower() == node.table.lower() for source in self.sources):
            at = span(node.args["table"]) or span(node)
            return self.error(f"no such table here: {node.table}", at, self.known_tables())
        at = span(node.this) or span(node)
        if at and self.sql[at[0]] == '"':
            return self.error(
                f"no such column: {node.name}",
                at,
                f"for text use single quotes: '{node.name}'; names go in double quotes",
            )
        return self.error(f"no such column: {node.name}", at, self._known_columns(node))

    def known_tables(self) -> str | None:
        names = [source.name for source in self.sources]
        if len(names) == 1:
            return f"the table is known as {names[0]}"
        return f"there are {listed(names)}" if names else None

    def _known_columns(self, node: exp.Column) -> str | None:
        near = [source for source in self.sources if not node.table or source.name.lower() == node.table.lower()]
        known = [*(name for source in near for name, _ in source.columns), *self.spelled]
        owner = near[0].table.name if len(near) == 1 and near[0].table else "the query"
        return did_you_mean(node.name, known, f"{owner} has {listed(known)}" if known else None)
