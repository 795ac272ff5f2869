"""`./dev bench demand`: what a join holds and computes beyond its tables, beside what its subscribers ask for.

`a JOIN b … WHERE a.g = ?` with subscribers, in the engine alone: rows held beyond one copy of each table, as a ratio to
the rows of the results; rows read for the first results, as a ratio to the rows of the tables that these are made of,
which are two for each of theirs. Then products of small tables as people write them, through the whole pipeline, beside
SQLite's own time.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from headwater import connect
from headwater.engine.dataflow import Dataflow
from headwater.engine.rows.delta import Delta
from headwater.model.schema import Column, Table
from headwater.model.value import Type
from headwater.plan.planner import plan

_console = Console(width=150)
_INTEGER = (Type.INTEGER, "INTEGER")
A = Table("a", tuple(Column(name, *_INTEGER, nullable=False) for name in ("id", "g", "v")), ("id",))
B = Table("b", tuple(Column(name, *_INTEGER, nullable=False) for name in ("id", "aid", "w")), ("id",))
_JOIN = "SELECT a.id, a.v, b.id AS bid, b.w FROM a JOIN b ON b.aid = a.id WHERE a.g = 0"
_GROUP = 100  # rows of `a` that have one value of g
_CHAIN = 17  # tables
_PRODUCTS = {
    "two of each of three tables": "SELECT b1, b2, b3 FROM t1, t2, t3 "
    "WHERE a1 IN (1, 2) AND a2 IN (1, 2) AND a3 IN (1, 2)",
    "of four": "SELECT b1, b2, b3, b4 FROM t1, t2, t3, t4 "
    "WHERE a1 IN (1, 2) AND a2 IN (1, 2) AND a3 IN (1, 2) AND a4 IN (1, 2)",
    "of four, by constants": "SELECT b1, b2, b3, b4 FROM t1, t2, t3, t4 WHERE a1 = 1 AND a2 = 2 AND a3 = 3 AND a4 = 4",
    "a join, by one value": "SELECT b1, b2 FROM t1 JOIN t2 ON b2 = b1 WHERE a1 = 3",
    "a chain of four, by its end": "SELECT b1, b4 "
    "FROM t1 JOIN t2 ON b2 = b1 JOIN t3 ON b3 = b2 JOIN t4 ON b4 = b3 WHERE b4 = 7",
    "a chain of 17 tables of 10 rows": f"SELECT c0.id AS i FROM {', '.join(f'c{n}' for n in range(_CHAIN))} "
    f"WHERE {' AND '.join(f'c{n}.x = c{n + 1}.id' for n in range(_CHAIN - 1))}",
}
Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="of either table (default 1,000,000)")
    parser.add_argument("--subscribers", type=int, default=100)
    parser.add_argument("--runner", default="spark", help="of the pipeline: spark (default) or inline")


def run(
    seconds: float, out: Path, rows: int = 1_000_000, subscribers: int = 100, runner: str = "spark"
) -> list[Figures]:
    with _console.status("a join of two large tables …"):
        found = _joined(rows, subscribers)
    _console.print(_join_table(found))
    products = [_product(what, sql, runner) for what, sql in _PRODUCTS.items()]
    _console.print(_product_table(products))
    (out / "demand.json").write_text(json.dumps([found, *products], indent=1))
    return [found, *products]


def _batches(rows: int) -> dict[str, list[pa.RecordBatch]]:
    n = np.arange(rows)
    one = pa.RecordBatch.from_arrays([pa.array(n), pa.array(n // _GROUP), pa.array(n)], schema=A.arrow)
    two = pa.RecordBatch.from_arrays([pa.array(n), pa.array(n), pa.array(n)], schema=B.arrow)
    return {"a": [one], "b": [two]}


def _joined(rows: int, subscribers: int) -> Figures:
    flow, planned = Dataflow(), plan(_JOIN, [A, B])
    for table in (A, B):
        flow.define(table)
    started = time.process_time()
    flow.activate(planned.template, _batches(rows))
    built, bare = time.process_time() - started, _held(flow)
    work = replace(flow.counters)
    started = time.process_time()
    for number in range(subscribers):
        flow.subscribe(replace(planned.instance, id=number + 1, values=(number * 7,)), number + 1)
    first = time.process_time() - started
    asked = sum(batch.num_rows for batch in flow.take().edits.values())
    gathered = flow.counters.gathered - work.gathered
    return {
        "rows": rows,
        "subscribers": subscribers,
        "asked": asked,
        "held_beyond": _held(flow) - bare,
        "places": _places(flow),
        "gathered": gathered,
        "setup_s": built,
        "first_ms": 1000 * first / subscribers,
        "change_ms": _change_ms(flow, 0, subscribers + 10),
        "other_change_ms": _change_ms(flow, 1, subscribers + 1000),
    }


def _held(flow: Dataflow) -> int:
    """Rows in operators and arrangements."""
    state = flow._state
    bags = sum(len(bag) for derived in state.derived.values() for bag in derived.bags())
    return bags + sum(len(each.all().id) for each in state.arrangements.values())


def _places(flow: Dataflow) -> int:
    """Rows of tables that operators find because somebody asks for them: 12 bytes each."""
    stores = flow._state.stores.values()
    indexed = ((store, index) for store in stores for key, index in store.indexes.items() if key.asked)
    return sum(len(index.places.living(store.heap.live)) for store, index in indexed)


def _change_ms(flow: Dataflow, group: int, tx: int, count: int = 100) -> float:
    """Of a changed row of `a`: one that somebody asks for, or that nobody does."""
    schema = pa.schema([*A.arrow, pa.field("tx", pa.int64()), pa.field("diff", pa.int8())])
    id = group * _GROUP
    started = time.process_time()
    for n in range(count):
        old, new = (id if not n else -n), -n - 1
        columns = [[id, id], [group, group], [old, new], [tx + n, tx + n], [-1, 1]]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        flow.step({"a": [Delta(pa.RecordBatch.from_arrays(arrays, schema=schema))]})
        flow.take()
    return 1000 * (time.process_time() - started) / count


def _product(what: str, sql: str, runner: str) -> Figures:
    with tempfile.TemporaryDirectory() as directory, _console.status(f"{what} …"):
        path = Path(directory) / "small.db"
        database = sqlite3.connect(path)
        for t in "1234":
            database.execute(f"CREATE TABLE t{t} (id INTEGER PRIMARY KEY, a{t} INTEGER, b{t} INTEGER)")
            database.executemany(f"INSERT INTO t{t} VALUES (?, ?, ?)", [(n, n % 50, n) for n in range(100)])
        for n in range(_CHAIN):
            database.execute(f"CREATE TABLE c{n} (id INTEGER PRIMARY KEY, x INTEGER)")
            database.executemany(f"INSERT INTO c{n} VALUES (?, ?)", [(n, n) for n in range(10)])
        database.commit()
        started = time.perf_counter()
        answer = database.execute(sql).fetchall()
        alone = time.perf_counter() - started
        with connect(f"sqlite:///{path}", runner=runner) as db:
            db.query("SELECT count(*) FROM t1", live=True)  # a server that runs
            started, before = time.perf_counter(), time.process_time()
            live = db.query(sql, live=True)
            took, cpu = time.perf_counter() - started, time.process_time() - before
            if sorted(tuple(row.values()) for row in live.rows) != sorted(answer):
                raise AssertionError(f"not what SQLite says: {sql}")
        database.close()
    return {"what": what, "rows": len(answer), "sqlite_ms": 1000 * alone, "first_ms": 1000 * took, "cpu_ms": 1000 * cpu}


def _join_table(found: Figures) -> Grid:
    grid = Grid(title=f"a JOIN b WHERE a.g = ?, {found['rows']:,} rows each, {found['subscribers']} subscribers")
    for column in (
        "rows asked for",
        "rows held beyond the tables",
        "places",
        "rows read",
        "set up",
        "first result",
        "change",
        "of nobody",
    ):
        grid.add_column(column, justify="right")
    asked = max(found["asked"], 1)
    grid.add_row(
        f"{found['asked']:,}",
        f"{found['held_beyond'] / asked:.2f} ×",
        f"{found['places'] / asked:.2f} ×",
        f"{found['gathered'] / (2 * asked):.2f} ×",
        f"{found['setup_s']:.2f} s",
        f"{found['first_ms']:.2f} ms",
        f"{found['change_ms']:.2f} ms",
        f"{found['other_change_ms']:.2f} ms",
    )
    return grid


def _product_table(found: list[Figures]) -> Grid:
    grid = Grid(title="small tables, through the whole pipeline (bar: 10 × SQLite + 50 ms)")
    for column in ("query", "rows", "SQLite", "first result", "CPU", "bar"):
        grid.add_column(column, justify="right" if column != "query" else "left")
    for one in found:
        bar = 10 * one["sqlite_ms"] + 50
        told = "holds" if one["first_ms"] <= bar else f"missed: {one['first_ms'] / bar:.1f} ×"
        times = f"{one['sqlite_ms']:.2f} ms", f"{one['first_ms']:.0f} ms", f"{one['cpu_ms']:.0f} ms"
        grid.add_row(one["what"], f"{one['rows']:,}", *times, told)
    return grid
