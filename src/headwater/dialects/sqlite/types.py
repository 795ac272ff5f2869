"""SQLite's types of columns: of tables, of expressions and of set operations."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.dialects.sqlite.affinity import Affinity, affinity, computed_affinity, declared_affinity
from headwater.model.schema import Column
from headwater.model.value import Type
from headwater.sql.bind.scope import Bound
from headwater.sql.ir.common_type import common_type
from headwater.sql.ir.expr import Const, Expr
from headwater.sql.ir.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class SqliteTypes:
    """A `DialectTypes`."""

    def scanned(self, column: Column) -> tuple[SqlType, str]:
        return declared_affinity(column.declared), column.collation.upper()

    def sql_type(self, expr: Expr) -> SqlType:
        """One that was computed has none: for text and blobs that is BLOB's."""
        own = affinity(expr)
        return computed_affinity(expr.type) if own is None else own

    def united(self, left: Expr, right: Expr) -> tuple[Type | None, SqlType, bool] | None:
        """How the column compares outside, SQLite leaves open where its sides differ."""
        found = common_type([left.type, right.type])
        if found is Type.ANY and not left.type is right.type is Type.ANY:
            return None
        affinities = {affinity(side) for side in (left, right) if side != Const(None, None)}
        if len(affinities) > 1:
            return found, Affinity.NONE, False
        own = affinities.pop() if affinities else None
        return found, computed_affinity(found) if own is None else own, True

    def looks_alike(self, bound: Bound) -> bool:
        collation = bound.collating.name or "BINARY"
        return bound.expr.type is not Type.ANY and (bound.expr.type is not Type.TEXT or collation == "BINARY")


SQLITE_TYPES = SqliteTypes()
