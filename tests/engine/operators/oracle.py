"""Relations answered by SQLite: one scratch table for each node, filled by a query over the tables of its inputs.

So every column has exactly the affinity and collation its relation says, whatever SQLite would infer by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.dialects.sqlite.render import render
from headwater.model.encoding.keys import encode_value
from headwater.model.value import Row
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.identifier import quote
from headwater.sql.ir.relation import (
    Aggregate,
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
    inputs_of,
)

_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


class _OrderedConcat:
    """group_concat with an order, which SQLite 3.40 lacks: text, separator, then (value, descending, nulls first,
    collation) of each sort key."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bytes, str, str]] = []

    def step(self, text: Any, separator: Any, *order: Any) -> None:
        if text is None:
            return
        keys = [order[at : at + 4] for at in range(0, len(order), 4)]
        encoded = [encode_value(v, descending=bool(d), nulls_first=bool(n), collation=c) for v, d, n, c in keys]
        self.pieces.append((b"".join(encoded), text, separator or ""))

    def finalize(self) -> str | None:
        parts = [part for _, text, separator in sorted(self.pieces) for part in (separator, text)]
        return "".join(parts[1:]) if parts else None


class Oracle:
    def __init__(self) -> None:
        self.memory = sqlite3.connect(":memory:", isolation_level=None)
        self.memory.create_aggregate("ordered_concat", -1, _OrderedConcat)  # type: ignore[arg-type]
        self._made = 0

    def close(self) -> None:
        self.memory.close()

    def rows(self, relation: Relation, tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        """The relation over these rows of the base tables, which have the columns of its scans' names."""
        self._made = 0
        name = self._table(relation, tables)
        found: list[Row] = self.memory.execute(f"SELECT * FROM {name}").fetchall()
        for number in range(1, self._made + 1):
            self.memory.execute(f"DROP TABLE n{number}")
        return found

    def _table(self, relation: Relation, tables: Mapping[str, Sequence[Row]]) -> str:
        inputs = [self._table(each, tables) for each in inputs_of(relation)]
        name = self._create(columns_of(relation))
        if isinstance(relation, Scan):
            self._fill(name, relation, tables[relation.table])
        elif isinstance(relation, Values):
            marks = ", ".join("?" * len(relation.columns))
            self.memory.executemany(f"INSERT INTO {name} VALUES ({marks})", relation.rows)
        else:
            self.memory.execute(f"INSERT INTO {name} {_select(relation, inputs)}")
        return name

    def _create(self, columns: Sequence[RelColumn]) -> str:
        self._made += 1
        declared = ", ".join(
            f"{quote(c.name)} {'BLOB' if c.sql_type is None else c.sql_type} COLLATE {c.collation}" for c in columns
        )
        self.memory.execute(f"CREATE TABLE n{self._made} ({declared})")
        return f"n{self._made}"

    def _fill(self, name: str, scan: Scan, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" * len(scan.columns))
        places = [int(each[1:]) for each in scan.names]
        self.memory.executemany(
            f"INSERT INTO {name} VALUES ({marks})", [tuple(row[place] for place in places) for row in rows]
        )


def _select(relation: Relation, inputs: Sequence[str]) -> str:
    match relation:
        case Filter(predicate=predicate):
            return f"SELECT * FROM {inputs[0]} WHERE {render(predicate)}"
        case Project(outputs=outputs):
            return f"SELECT {_listed(outputs)} FROM {inputs[0]}"
        case Join(kind=kind, on=on):
            return f"SELECT * FROM {inputs[0]} {_JOINS[kind]} {inputs[1]} ON {_on(on)}"
        case Exists():
            return f"SELECT * FROM {inputs[0]} WHERE {_exists(relation, inputs[1])}"
        case Mark():
            return f"SELECT *, {_mark(relation, inputs[1])} FROM {inputs[0]}"
        case Group():
            return _group(relation, inputs[0])
        case Distinct():
            return f"SELECT DISTINCT * FROM {inputs[0]}"
        case SetOperation(kind=kind, all=all):
            return _set(kind, all, inputs)
        case Top():
            return _top(relation, inputs[0])
        case _:
            raise AssertionError(relation)


def _listed(outputs: Sequence[Output]) -> str:
    return ", ".join(render(output.expr) for output in outputs)


def _on(on: Expr | None) -> str:
    return "1" if on is None else render(on)


def _exists(relation: Exists, right: str) -> str:
    holds = f"EXISTS (SELECT 1 FROM {right} WHERE {_on(relation.on)})"
    if not relation.anti:
        return holds
    unknown = f"EXISTS (SELECT 1 FROM {right} WHERE ({_on(relation.on)}) IS NULL)"
    return f"NOT {holds}" + (f" AND NOT {unknown}" if relation.null_aware else "")


def _mark(relation: Mark, right: str) -> str:
    holds = f"EXISTS (SELECT 1 FROM {right} WHERE {_on(relation.on)})"
    unknown = f"EXISTS (SELECT 1 FROM {right} WHERE ({_on(relation.on)}) IS NULL)"
    null = f"WHEN {unknown} THEN NULL " if relation.null_aware else ""
    return f"CASE WHEN {holds} THEN 1 {null}ELSE 0 END"


def _group(group: Group, table: str) -> str:
    outputs = [*(render(key.expr) for key in group.keys), *(_aggregate(each) for each in group.aggregates)]
    sql = f"SELECT {', '.join(outputs)} FROM {table}"
    if group.keys:
        sql += " GROUP BY " + ", ".join(f"({render(key.expr)})" for key in group.keys)
    return sql


def _aggregate(aggregate: Aggregate) -> str:
    args = [render(arg) for arg in aggregate.args]
    name = aggregate.function
    if name == "group_concat":
        name = "ordered_concat"
        args = [f"CAST({args[0]} AS TEXT)", args[1] if len(args) > 1 else "','"]
        for key in aggregate.order:
            args += [render(key.expr), str(int(key.descending)), str(int(key.nulls_first)), f"'{key.collation}'"]
    text = f"{name}({'DISTINCT ' if aggregate.distinct else ''}{', '.join(args) or '*'})"
    return text if aggregate.filter is None else f"{text} FILTER (WHERE {render(aggregate.filter)})"


def _set(kind: str, all: bool, inputs: Sequence[str]) -> str:
    if not all or kind == "union":
        return f"SELECT * FROM {inputs[0]} {kind.upper()}{' ALL' if all else ''} SELECT * FROM {inputs[1]}"
    raise AssertionError("SQLite has no INTERSECT ALL and no EXCEPT ALL")


def _top(top: Top, table: str) -> str:
    order = ", ".join(_key(key) for key in top.order)
    if not top.partition:
        limit = -1 if top.limit is None else top.limit
        return f"SELECT * FROM {table} ORDER BY {order} LIMIT {limit} OFFSET {top.offset}"
    names = ", ".join(quote(column.name) for column in columns_of(top))
    by = ", ".join(f"({render(expr)})" for expr in top.partition)
    number = f"row_number() OVER (PARTITION BY {by} ORDER BY {order})"
    end = 1 << 60 if top.limit is None else top.offset + top.limit
    numbered = f"SELECT *, {number} AS number FROM {table}"
    return f"SELECT {names} FROM ({numbered}) WHERE number > {top.offset} AND number <= {end}"


def _key(key: OrderKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    nulls = "FIRST" if key.nulls_first else "LAST"
    return f"({render(key.expr)}) COLLATE {key.collation} {direction} NULLS {nulls}"
