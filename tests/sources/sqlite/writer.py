"""A program that writes random transactions: `python writer.py path seed count name`. Each has its id in `journal`."""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import suppress

VALUES = ["NULL", "0", "1", "2", "3", "-1", "1.5", "2.0", "'x'", "'X'", "'y'", "'1'", "x'00'", "9223372036854775807"]


def main(path: str, seed: int, count: int, name: str) -> None:
    dice = random.Random(seed)
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA synchronous = OFF")
    db.execute(f"PRAGMA foreign_keys = {dice.choice(['ON', 'OFF'])}")
    db.execute(f"PRAGMA recursive_triggers = {dice.choice(['ON', 'OFF'])}")
    db.execute(f"PRAGMA cache_size = {dice.choice([1, 10, 2000])}")
    tables = {table: columns(db, table) for (table,) in db.execute("SELECT name FROM tables").fetchall()}
    for number in range(count):
        transact(db, dice, tables, f"{name}-{number}")
    db.close()


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in db.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))]


def transact(db: sqlite3.Connection, dice: random.Random, tables: dict[str, list[str]], id: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO journal VALUES (?)", (id,))
    for _ in range(dice.choice([1, 1, 2, 5, 30])):
        if not db.in_transaction:  # OR ROLLBACK
            return
        table = dice.choice(list(tables))
        savepoint = dice.random() < 0.1
        if savepoint:
            db.execute("SAVEPOINT s")
        with suppress(sqlite3.IntegrityError):
            db.execute(statement(dice, table, tables[table]))
        if savepoint and db.in_transaction:
            db.execute(dice.choice(["ROLLBACK TO s", "RELEASE s"]))
    if db.in_transaction:
        try:
            db.execute(dice.choice(["COMMIT"] * 9 + ["ROLLBACK"]))
        except sqlite3.IntegrityError:
            db.execute("ROLLBACK")


def statement(dice: random.Random, table: str, names: list[str]) -> str:
    word = dice.choice(["", "", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK"])
    where = f"WHERE {dice.choice(names)} IS {dice.choice(VALUES)}" if dice.random() < 0.9 else ""
    kind = dice.random()
    if kind < 0.15:
        return f"DELETE FROM {table} {where}"
    chosen = dice.sample(names, dice.randint(1, len(names)))
    if kind < 0.4:
        sets = ", ".join(f"{name} = {dice.choice([*VALUES, *names])}" for name in chosen)
        return f"UPDATE {word} {table} SET {sets} {where}"
    rows = ", ".join(f"({', '.join(dice.choice(VALUES) for _ in chosen)})" for _ in range(dice.choice([1, 1, 3])))
    upsert = ""
    if kind < 0.55:
        word = ""
        upsert = dice.choice(
            ["ON CONFLICT DO NOTHING", f"ON CONFLICT DO UPDATE SET {chosen[0]} = {dice.choice(VALUES)}"]
        )
    return f"INSERT {word} INTO {table}({', '.join(chosen)}) VALUES {rows} {upsert}"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
