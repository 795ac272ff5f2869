"""A relation evaluated the plainest way there is: lists of rows in Python, every expression by SQLite itself.

Knows nothing of how queries are bound: it is what bound queries are checked against.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from headwater.dialects.sqlite.render import render, render_operand
from headwater.model.value import Row, Value
from headwater.sql.ir.expr import Expr, OrderKey
from headwater.sql.ir.identifier import quote
from headwater.sql.ir.query import Query
from headwater.sql.ir.relation import (
    Aggregate,
    Demand,
    Distinct,
    Exists,
    Filter,
    Group,
    Join,
    Mark,
    Project,
    Relation,
    RelColumn,
    Scan,
    SetOperation,
    Top,
    Values,
    columns_of,
)

Tables = Mapping[str, tuple[Sequence[str], Sequence[Row]]]


def rows_of(query: Query, tables: Tables) -> list[Row]:
    assert query.relation is not None
    columns, rows = columns_of(query.relation), evaluate(query.relation, tables)
    for conjunct in query.where:
        rows = _kept(columns, rows, conjunct)
    if query.empty is not None and not rows:
        rows = [tuple(dict(query.empty).get(column.name) for column in columns)]
    rows = _sorted(columns, rows, query.order)
    rows = _framed(rows, query.limit, query.offset)
    return _computed(columns, rows, [output.expr for output in query.outputs])


def evaluate(relation: Relation, tables: Tables) -> list[Row]:
    assert not isinstance(relation, Demand), "a bound query knows nothing of who asks"
    match relation:
        case Scan():
            names, rows = tables[relation.table]
            places = [list(names).index(name) for name in relation.names]
            return [tuple(row[place] for place in places) for row in rows]
        case Values():
            return list(relation.rows)
        case Filter():
            return _kept(columns_of(relation.input), evaluate(relation.input, tables), relation.predicate)
        case Project():
            exprs = [output.expr for output in relation.outputs]
            return _computed(columns_of(relation.input), evaluate(relation.input, tables), exprs)
        case Join():
            return _joined(relation, tables)
        case Exists():
            return [row for row, found in _marked(relation, tables) if _chosen(relation, found)]
        case Mark():
            return [(*row, found) for row, found in _marked(relation, tables)]
        case Group():
            return _grouped(relation, evaluate(relation.input, tables))
        case Distinct():
            return _once(evaluate(relation.input, tables))
        case SetOperation():
            return _combined(relation, evaluate(relation.left, tables), evaluate(relation.right, tables))
        case Top():
            return _top(relation, evaluate(relation.input, tables))
        case _:
            assert_never(relation)


def _computed(columns: Sequence[RelColumn], rows: Iterable[Row], exprs: Sequence[Expr]) -> list[Row]:
    selected = ", ".join(render(expr) for expr in exprs)
    return _scratch(columns, rows).execute(f"SELECT {selected} FROM scratch ORDER BY rowid").fetchall()


def _scratch(columns: Sequence[RelColumn], rows: Iterable[Row]) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:")
    declared = ", ".join(
        f"{quote(column.name)} {column.sql_type or 'BLOB'} COLLATE {column.collation}" for column in columns
    )
    memory.execute(f"CREATE TABLE scratch ({declared})")
    memory.executemany(f"INSERT INTO scratch VALUES ({', '.join('?' * len(columns))})", rows)
    return memory


def _kept(columns: Sequence[RelColumn], rows: Sequence[Row], predicate: Expr) -> list[Row]:
    found = _scratch(columns, rows).execute(f"SELECT rowid FROM scratch WHERE {render(predicate)} ORDER BY rowid")
    return [rows[rowid - 1] for (rowid,) in found]


def _truths(relation: Join | Exists | Mark, left: Sequence[Row], right: Sequence[Row]) -> list[list[Value]]:
    """For each row of the left, what the condition says of each row of the right: 1, 0 or NULL."""
    if relation.on is None:
        return [[1] * len(right) for _ in left]
    columns = [*columns_of(relation.left), *columns_of(relation.right)]
    pairs = [(*mine, *theirs) for mine in left for theirs in right]
    truth = f"CASE WHEN {render(relation.on)} THEN 1 WHEN NOT {render_operand(relation.on)} THEN 0 END"
    found = [row[0] for row in _scratch(columns, pairs).execute(f"SELECT {truth} FROM scratch ORDER BY rowid")]
    width = len(right)
    return [found[place * width : (place + 1) * width] for place in range(len(left))]


def _joined(join: Join, tables: Tables) -> list[Row]:
    left, right = evaluate(join.left, tables), evaluate(join.right, tables)
    truths = _truths(join, left, right)
    found: list[Row] = [
        (*mine, *theirs)
        for mine, row in zip(left, truths, strict=True)
        for theirs, truth in zip(right, row, strict=True)
        if truth == 1
    ]
    if join.kind in ("left", "full"):
        nulls = (None,) * len(columns_of(join.right))
        found += [(*mine, *nulls) for mine, row in zip(left, truths, strict=True) if 1 not in row]
    if join.kind in ("right", "full"):
        nulls = (None,) * len(columns_of(join.left))
        found += [(*nulls, *theirs) for at, theirs in enumerate(right) if not any(row[at] == 1 for row in truths)]
    return found


def _marked(relation: Exists | Mark, tables: Tables) -> list[tuple[Row, Value]]:
    left, right = evaluate(relation.left, tables), evaluate(relation.right, tables)
    truths = _truths(relation, left, right)
    return [(row, _mark(each, relation.null_aware)) for row, each in zip(left, truths, strict=True)]


def _mark(truths: Sequence[Value], null_aware: bool) -> Value:
    if 1 in truths:
        return 1
    return None if null_aware and None in truths else 0


def _chosen(relation: Exists, found: Value) -> bool:
    return found == 0 if relation.anti else found == 1


def _key(row: Row) -> tuple[object, ...]:
    """1 and 1.0 are one; text and blobs are not."""
    return tuple((isinstance(value, bytes), value) for value in row)


def _once(rows: Iterable[Row]) -> list[Row]:
    return list({_key(row): row for row in rows}.values())


def _combined(relation: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    theirs = {_key(row) for row in right}
    match relation.kind:
        case "union":
            return [*left, *right] if relation.all else _once([*left, *right])
        case "intersect":
            return [row for row in _once(left) if _key(row) in theirs]
        case "except":
            return [row for row in _once(left) if _key(row) not in theirs]


def _grouped(group: Group, rows: list[Row]) -> list[Row]:
    columns = columns_of(group.input)
    keys = _computed(columns, rows, [key.expr for key in group.keys]) if group.keys else [()] * len(rows)
    groups: dict[tuple[object, ...], tuple[Row, list[Row]]] = {} if group.keys else {(): ((), [])}
    for key, row in zip(keys, rows, strict=True):
        groups.setdefault(_key(key), (key, []))[1].append(row)
    return [
        (*key, *(_aggregated(columns, some, aggregate) for aggregate in group.aggregates))
        for key, some in groups.values()
    ]


def _aggregated(columns: Sequence[RelColumn], rows: list[Row], aggregate: Aggregate) -> Value:
    some = rows if aggregate.filter is None else _kept(columns, rows, aggregate.filter)
    some = _sorted(columns, some, aggregate.order)
    written = [render_operand(arg) for arg in aggregate.args]
    if written and aggregate.collation != "BINARY":
        written[0] += f" COLLATE {aggregate.collation}"
    args = ", ".join(written) or "*"
    distinct = "DISTINCT " if aggregate.distinct else ""
    found: Value = (
        _scratch(columns, some).execute(f"SELECT {aggregate.function}({distinct}{args}) FROM scratch").fetchone()[0]
    )
    return found


def _sorted(columns: Sequence[RelColumn], rows: list[Row], order: Sequence[OrderKey]) -> list[Row]:
    if not order:
        return rows
    keys = ", ".join(
        f"{render_operand(key.expr)} COLLATE {key.collation} {'DESC' if key.descending else 'ASC'}"
        f" NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in order
    )
    found = _scratch(columns, rows).execute(f"SELECT rowid FROM scratch ORDER BY {keys}, rowid")
    return [rows[rowid - 1] for (rowid,) in found]


def _framed(rows: list[Row], limit: int | None, offset: int) -> list[Row]:
    return rows[offset:] if limit is None else rows[offset : offset + limit]


def _top(top: Top, rows: list[Row]) -> list[Row]:
    columns = columns_of(top.input)
    ordered = _sorted(columns, rows, top.order)
    parts = _computed(columns, ordered, top.partition) if top.partition else [()] * len(ordered)
    partitions: dict[tuple[object, ...], list[Row]] = {}
    for key, row in zip(parts, ordered, strict=True):
        partitions.setdefault(_key(key), []).append(row)
    return [row for some in partitions.values() for row in _framed(some, top.limit, top.offset)]
