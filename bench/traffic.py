"""Orders and customers in numpy columns, and a seeded stream of changes to them as the log would hand them over.

Every change is a transaction of its own: the hardest cut. It never touches the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.rows.delta import Delta
from headwater.model.schema import Column, Table
from headwater.model.value import Type

Int64s = npt.NDArray[np.int64]

ORDERS = Table(
    "orders",
    (
        Column("id", Type.INTEGER, "INTEGER"),
        Column("customer", Type.INTEGER, "INTEGER"),
        Column("amount", Type.INTEGER, "INTEGER"),
        Column("status", Type.TEXT, "TEXT"),
    ),
    ("id",),
)
CUSTOMERS = Table(
    "customers",
    (
        Column("id", Type.INTEGER, "INTEGER"),
        Column("region", Type.INTEGER, "INTEGER"),
        Column("name", Type.TEXT, "TEXT"),
    ),
    ("id",),
)
TABLES = [ORDERS, CUSTOMERS]
_DECLARED = {Type.INTEGER: "bigint", Type.TEXT: "text"}
POSTGRES_TABLES = [
    replace(
        table, columns=tuple(replace(one, declared=_DECLARED[one.type]) for one in table.columns), dialect="postgres"
    )
    for table in TABLES
]
AMOUNT_MAX = 1_000_000_000
_STATUSES = pa.array(["open", "paid", "packed", "sent", "returned"])
_NAMES = pa.array([f"customer of the year {year}" for year in range(1000)])
_INSERT, _DELETE = 0.1, 0.1  # shares; the rest are updates of amount and status,
_MOVE = 0.1  # of which this share goes to another customer


@dataclass(slots=True)
class Traffic:
    """The rows there are, by id, and how they change. Orders come, go and change; customers change their name."""

    orders: int
    customers: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    tx: int = 1
    here: Int64s = field(init=False)  # ids of the orders there are
    order: Int64s = field(init=False)  # by id: customer, amount, status
    name: Int64s = field(init=False)

    def __post_init__(self) -> None:
        self.here = np.arange(self.orders)
        self.order = self._drawn(self.orders)
        self.name = self.rng.integers(len(_NAMES), size=self.customers)

    def _drawn(self, count: int) -> Int64s:
        bounds = ((self.customers, count), (AMOUNT_MAX, count), (len(_STATUSES), count))
        return np.stack([self.rng.integers(most, size=size) for most, size in bounds])

    def rows(self) -> dict[str, list[pa.RecordBatch]]:
        """Both tables as they are now."""
        everyone = np.arange(self.customers)
        return {
            "orders": [_batch(ORDERS, _orders(self.here, self.order[:, self.here]))],
            "customers": [_batch(CUSTOMERS, _customers(everyone, self.name))],
        }

    def step(self, changes: int, customers: int = 0) -> dict[str, list[Delta]]:
        """So many transactions, `customers` of them to customers and spread among the others."""
        order = self.rng.permutation(changes)
        tx = self.tx + 1 + np.arange(changes)
        self.tx += changes
        mine, theirs = np.sort(order[customers:]), np.sort(order[:customers])
        deltas = {"orders": [self._to_orders(tx[mine])]} if len(mine) else {}
        return deltas | ({"customers": [self._to_customers(tx[theirs])]} if customers else {})

    def _to_orders(self, tx: Int64s) -> Delta:
        """What each transaction does, then old images before new ones by transaction."""
        kind = self.rng.random(len(tx))
        inserts, deletes = np.flatnonzero(kind < _INSERT), np.flatnonzero(kind >= 1 - _DELETE)
        known = np.flatnonzero(kind >= _INSERT)
        place = self.rng.choice(len(self.here), len(known), replace=False)
        id = np.empty(len(tx), np.int64)
        id[known], id[inserts] = self.here[place], self.order.shape[1] + np.arange(len(inserts))
        stays = np.flatnonzero(kind < 1 - _DELETE)
        old, new = self.order[:, id[known]], self._drawn(len(stays))
        settled = (kind[stays] >= _INSERT) & (self.rng.random(len(stays)) >= _MOVE)
        new[0, settled] = self.order[0, id[stays[settled]]]
        self.order = np.concatenate((self.order, np.zeros((3, len(inserts)), np.int64)), axis=1)
        self.order[:, id[stays]] = new
        self.here = np.concatenate((np.delete(self.here, place[kind[known] >= 1 - _DELETE]), id[inserts]))
        assert len(deletes) + len(stays) == len(tx)
        both = np.concatenate((np.stack((id[known], *old)), np.stack((id[stays], *new))), axis=1)
        return _delta(ORDERS, both, np.concatenate((tx[known], tx[stays])), _signs(len(known), len(stays)))

    def become(self, events: Sequence[tuple[int, tuple[int, int, int] | None]]) -> dict[str, list[Delta]]:
        """A transaction for each (id, what the order becomes): a new id is inserted, None deletes."""
        images: list[tuple[int, int, int, int]] = []
        marks: list[tuple[int, int]] = []
        for id, new in events:
            self.tx += 1
            if id < self.order.shape[1]:
                images.append((id, *self.order[:, id].tolist()))
                marks.append((self.tx, -1))
            if new is not None:
                images.append((id, *new))
                marks.append((self.tx, 1))
            self._set(id, new)
        return {"orders": [_delta(ORDERS, np.array(images).T, *np.array(marks).T)]}

    def _set(self, id: int, new: tuple[int, int, int] | None) -> None:
        if new is None:
            self.here = self.here[self.here != id]
            return
        if id == self.order.shape[1]:
            self.order = np.concatenate((self.order, np.zeros((3, 1), np.int64)), axis=1)
            self.here = np.append(self.here, id)
        self.order[:, id] = new

    def _to_customers(self, tx: Int64s) -> Delta:
        id = self.rng.choice(self.customers, len(tx), replace=False)
        old, new = self.name[id], (self.name[id] + 1) % len(_NAMES)
        self.name[id] = new
        both = np.stack((np.concatenate((id, id)), np.concatenate((old, new))))
        return _delta(CUSTOMERS, both, np.concatenate((tx, tx)), _signs(len(tx), len(tx)))


def _orders(id: Int64s, order: Int64s) -> list[pa.Array]:
    return [pa.array(id), pa.array(order[0]), pa.array(order[1]), _STATUSES.take(pa.array(order[2]))]


def _customers(id: Int64s, name: Int64s) -> list[pa.Array]:
    return [pa.array(id), pa.array(id % 50), _NAMES.take(pa.array(name))]


def _batch(table: Table, columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=table.arrow)


def _signs(olds: int, news: int) -> Int64s:
    return np.repeat(np.array([-1, 1]), (olds, news))


def _delta(table: Table, rows: Int64s, tx: Int64s, diff: Int64s) -> Delta:
    at = np.lexsort((diff, tx))
    rows = rows[:, at]
    columns = _orders(rows[0], rows[1:]) if table is ORDERS else _customers(rows[0], rows[1])
    schema = pa.schema([*table.arrow, pa.field("tx", pa.int64()), pa.field("diff", pa.int8())])
    return Delta(
        pa.RecordBatch.from_arrays([*columns, pa.array(tx[at]), pa.array(diff[at].astype(np.int8))], schema=schema)
    )
