"""The identity of rows in a derived relation: the columns that distinguish them, by the inputs they come from.

A joined row is identified by the rows it was made of, a group by its keys, a member of a set by all its values. Where
no columns distinguish two rows (a table without a key, UNION ALL) there is no identity and the relation is a multiset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
)


@dataclass(frozen=True, slots=True)
class IdentityPart:
    """Columns that come from one input; `table` names the base table whose whole key they are.

    `sure`: never all NULL, as the padding of an outer join is. A base table's key is, until a join pads it."""

    columns: tuple[str, ...]
    table: str | None = None
    sure: bool = False


Identity = tuple[IdentityPart, ...]  # the preserved side of a join first; () is a relation of at most one row


def identity_of(relation: Relation) -> Identity | None:
    match relation:
        case Scan(table=table, key=key):
            return (IdentityPart(key, table, sure=True),) if key else None
        case Values(rows=rows):
            return () if len(rows) <= 1 else None
        case Filter(input=input) | Top(input=input) | Demand(input=input):
            return identity_of(input)
        case Exists(left=left) | Mark(left=left):
            return identity_of(left)
        case Join():
            return _joined(relation)
        case Project(input=input, outputs=outputs):
            shown = {
                output.expr.name: output.name for output in reversed(outputs) if isinstance(output.expr, ColumnRef)
            }
            return _renamed(identity_of(input), shown)
        case Group(key_columns=columns):
            return (IdentityPart(tuple(column.name for column in columns)),) if columns else ()
        case Distinct(input=input):
            return identity_of(input) or _whole(relation)
        case SetOperation():
            return _set(relation)


def _joined(join: Join) -> Identity | None:
    left, right = identity_of(join.left), identity_of(join.right)
    if left is None or right is None:
        return None
    match join.kind:
        case "inner":
            return (*left, *right)
        case "left":
            return (*left, *_padded(right))
        case "right":
            return (*right, *_padded(left))
        case "full":
            # Without a sure part, a row of each side may be padded to the same NULLs.
            return (*_padded(left), *_padded(right)) if any(part.sure for part in (*left, *right)) else None


def _padded(identity: Identity) -> Identity:
    return tuple(replace(part, sure=False) for part in identity)


def _renamed(identity: Identity | None, names: Mapping[str, str]) -> Identity | None:
    if identity is None or any(name not in names for part in identity for name in part.columns):
        return None
    return tuple(replace(part, columns=tuple(names[name] for name in part.columns)) for part in identity)


def _set(operation: SetOperation) -> Identity | None:
    if operation.kind != "union":
        pairs = zip(columns_of(operation.left), operation.columns, strict=True)
        left = _renamed(identity_of(operation.left), {old.name: new.name for old, new in pairs})
        if left is not None:
            return left
    return None if operation.all else _whole(operation)


def _whole(relation: Relation) -> Identity:
    return (IdentityPart(tuple(column.name for column in columns_of(relation))),)
