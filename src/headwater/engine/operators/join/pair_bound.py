"""An upper bound on the pairs of rows that a relation's joins compare, from the row counts of its tables.

A join on a key of one side compares each row of the other side once; any other join may compare all with all. It reads
no rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.engine.operators.identity_columns import identity_of
from headwater.engine.operators.join.condition import Condition
from headwater.engine.rows.batch import table_of
from headwater.sql.ir.expr import ColumnRef
from headwater.sql.ir.relation import (
    Demand,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    Mark,
    Project,
    Relation,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
    inputs_of,
)

Rows = Mapping[str, int]


def pairs_at_most(relation: Relation, rows: Rows) -> int:
    """Of all its joins together."""
    below = sum(pairs_at_most(each, rows) for each in inputs_of(relation))
    return below + (_pairs(relation, rows) if isinstance(relation, Join | Exists | Mark) else 0)


def rows_at_most(relation: Relation, rows: Rows) -> int:
    match relation:
        case Demand():
            return 0
        case Scan(table=table):
            return rows[table]
        case Values():
            return len(relation.rows)
        case Filter(input=input) | Project(input=input) | Distinct(input=input):
            return rows_at_most(input, rows)
        case Top(input=input, limit=limit, partition=partition):
            most = rows_at_most(input, rows)
            return most if limit is None or partition else min(most, limit)
        case Group(input=input, keys=keys):
            return rows_at_most(input, rows) if keys else 1
        case Exists(left=left) | Mark(left=left):
            return rows_at_most(left, rows)
        case SetOperation(kind="union"):
            return rows_at_most(relation.left, rows) + rows_at_most(relation.right, rows)
        case SetOperation():
            return rows_at_most(relation.left, rows)
        case Join():
            return _joined(relation, rows)


def _joined(join: Join, rows: Rows) -> int:
    """Its pairs, and of an outer join what is left over."""
    left = rows_at_most(join.left, rows) if join.kind in ("left", "full") else 0
    right = rows_at_most(join.right, rows) if join.kind in ("right", "full") else 0
    return _pairs(join, rows) + left + right


def _pairs(relation: Join | Exists | Mark, rows: Rows) -> int:
    left, right = rows_at_most(relation.left, rows), rows_at_most(relation.right, rows)
    tables = table_of(columns_of(relation.left)), table_of(columns_of(relation.right))
    equations = Condition(*tables, relation.on).equations
    most = left * right
    if _is_key(relation.right, {each.right.name for each in equations}):
        most = min(most, left)
    if _is_key(relation.left, {each.left.name for each in equations}):
        most = min(most, right)
    return most


def _is_key(relation: Relation, columns: set[str]) -> bool:
    """Whether no two of its rows are equal in all these columns."""
    return any(columns >= key for key in keys_of(relation))


def keys_of(relation: Relation) -> list[frozenset[str]]:
    """Sets of columns that tell its rows apart; there may be others."""
    match relation:
        case Filter(input=input) | Top(input=input):
            return keys_of(input)
        case Join(kind="inner" | "left"):
            return _keys_joined(relation)
        case Project(input=input, outputs=outputs):
            shown = {one.expr.name: one.name for one in reversed(outputs) if isinstance(one.expr, ColumnRef)}
            return [frozenset(shown[name] for name in key) for key in keys_of(input) if key <= shown.keys()]
        case _:
            identity = identity_of(relation)
            return [] if identity is None else [frozenset(name for part in identity for name in part.columns)]


def _keys_joined(join: Join) -> list[frozenset[str]]:
    """A side whose rows meet one row of the other at most tells by itself what was joined."""
    left, right = keys_of(join.left), keys_of(join.right)
    equations = Condition(table_of(columns_of(join.left)), table_of(columns_of(join.right)), join.on).equations
    keys = left if any({each.right.name for each in equations} >= key for key in right) else []
    if join.kind == "inner" and any({each.left.name for each in equations} >= key for key in left):
        keys = [*keys, *right]
    return keys or [one | other for one in left[:1] for other in right[:1]]
