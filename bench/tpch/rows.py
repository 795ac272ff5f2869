"""The rows of TPC-H's eight tables, made by us: shapes, cardinalities and value domains as its specification describes
them, from a seed. They are not dbgen's rows, so results differ from published ones; the database is the oracle here.

Money is in cents until it is written. It never touches a database.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.tpch import words

Ints = npt.NDArray[np.int64]
Row = tuple[object, ...]
TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")
_START, _CURRENT = datetime.date(1992, 1, 1), datetime.date(1995, 6, 17)
_DATES = [str(_START + datetime.timedelta(days=n)) for n in range(2700)]
_ORDER_DAYS = (datetime.date(1998, 12, 31) - _START).days - 151
_TODAY = (_CURRENT - _START).days
_POOL_CHARACTERS = 1 << 20
_ALPHABET = np.array(list("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, "))
_BLOCK = 10_000  # orders made at once


@dataclass(slots=True)
class Population:
    """All tables at one scale. The same scale and seed give the same rows."""

    scale: float
    seed: int = 7
    suppliers: int = field(init=False)
    parts: int = field(init=False)
    customers: int = field(init=False)
    orders: int = field(init=False)
    _text: str = field(init=False)

    def __post_init__(self) -> None:
        self.suppliers, self.parts = max(10, round(10_000 * self.scale)), max(20, round(200_000 * self.scale))
        self.customers, self.orders = max(15, round(150_000 * self.scale)), max(150, round(1_500_000 * self.scale))
        self._text = words.pseudo_text(_POOL_CHARACTERS, random.Random(self.seed))

    def count(self, table: str) -> int:
        """Of lineitem, about."""
        counts = {"region": 5, "nation": 25, "supplier": self.suppliers, "part": self.parts}
        counts |= {"partsupp": 4 * self.parts, "customer": self.customers, "orders": self.orders}
        return counts.get(table, 4 * self.orders)

    # — tables without changes

    def region(self) -> Iterator[Row]:
        comments = self._comments(self._rng(1), 5, 31, 115)
        return ((n, name, comment) for n, (name, comment) in enumerate(zip(words.REGIONS, comments, strict=True)))

    def nation(self) -> Iterator[Row]:
        comments = self._comments(self._rng(2), 25, 31, 114)
        for n, ((name, region), comment) in enumerate(zip(words.NATIONS, comments, strict=True)):
            yield n, name, region, comment

    def supplier(self) -> Iterator[Row]:
        rng, count = self._rng(3), self.suppliers
        comments = self._comments(rng, count, 25, 100)
        for place, about in _complaints(rng, count, self.scale):
            comments[place] = f"{comments[place][:20]} Customer {about}"
        nations = _drawn(rng, 0, 24, count)
        columns = (_addresses(rng, count), nations, _phones(rng, nations), _drawn(rng, -99999, 999999, count), comments)
        for n, (address, nation, phone, balance, comment) in enumerate(_together(*columns), 1):
            yield n, f"Supplier#{n:09}", address, nation, phone, _money(balance), comment

    def part(self) -> Iterator[Row]:
        rng, count = self._rng(4), self.parts
        names = [
            " ".join(words.COLOURS[n] for n in rng.choice(len(words.COLOURS), 5, replace=False)) for _ in range(count)
        ]
        makers, brands, sizes = (_drawn(rng, 1, most, count) for most in (5, 5, 50))
        columns = (
            names,
            makers,
            brands,
            _joined(rng, words.TYPES, count),
            sizes,
            _joined(rng, words.CONTAINERS, count),
        )
        comments = self._comments(rng, count, 5, 22)
        for n, (name, maker, brand, type, size, container, comment) in enumerate(_together(*columns, comments), 1):
            price = _money(int(_retail(np.array(n))))
            yield n, name, f"Manufacturer#{maker}", f"Brand#{maker}{brand}", type, size, container, price, comment

    def partsupp(self) -> Iterator[Row]:
        rng, count = self._rng(5), 4 * self.parts
        part = np.repeat(np.arange(1, self.parts + 1), 4)
        supplier = self._supplier_of(part, np.tile(np.arange(4), self.parts))
        available, cost = _drawn(rng, 1, 9999, count), _drawn(rng, 100, 100_000, count)
        comments = self._comments(rng, count, 49, 198)
        for p, s, quantity, price, comment in _together(part, supplier, available, cost, comments):
            yield p, s, quantity, _money(price), comment

    def customer(self) -> Iterator[Row]:
        rng, count = self._rng(6), self.customers
        nations = _drawn(rng, 0, 24, count)
        balances, segments = _drawn(rng, -99999, 999999, count), _chosen(rng, words.SEGMENTS, count)
        comments = self._comments(rng, count, 29, 116)
        columns = (_addresses(rng, count), nations, _phones(rng, nations), balances, segments, comments)
        for n, (address, nation, phone, balance, segment, comment) in enumerate(_together(*columns), 1):
            yield n, f"Customer#{n:09}", address, nation, phone, _money(balance), segment, comment

    # — orders with their lines

    def loaded_orders(self) -> Iterator[tuple[Row, list[Row]]]:
        """Keys are sparse: the first eight of every 32."""
        for start in range(0, self.orders, _BLOCK):
            keys = sparse_keys(np.arange(start, min(start + _BLOCK, self.orders)), 0)
            yield from self._orders(keys, self._rng(7, start))

    def new_order(self, n: int) -> tuple[Row, list[Row]]:
        """The order that the nth refresh inserts: its key is one that was left out."""
        return next(self._orders(sparse_keys(np.array([n]), 8), self._rng(8, n)))

    def _orders(self, keys: Ints, rng: np.random.Generator) -> Iterator[tuple[Row, list[Row]]]:
        count = len(keys)
        lines = _drawn(rng, 1, 7, count)
        made = self._lines(keys, lines, dates := _drawn(rng, 0, _ORDER_DAYS, count), rng)
        customers = _customers(rng, self.customers, count)
        clerks = _drawn(rng, 1, max(1, round(1000 * self.scale)), count)
        priorities, comments = _chosen(rng, words.PRIORITIES, count), self._comments(rng, count, 19, 78)
        columns = _together(keys, lines, dates, customers, clerks, priorities, comments)
        for key, length, day, customer, clerk, priority, comment in columns:
            mine = [next(made) for _ in range(length)]
            states = {row[9] for _, row in mine}
            status = str(states.pop()) if len(states) == 1 else "P"
            total = _money(round(sum(charge for charge, _ in mine)))
            order = (key, customer, status, total, _DATES[day], priority, f"Clerk#{clerk:09}", 0, comment)
            yield order, [row for _, row in mine]

    def _lines(self, keys: Ints, lengths: Ints, dates: Ints, rng: np.random.Generator) -> Iterator[tuple[float, Row]]:
        """With what each costs in the end, in cents."""
        key, ordered, count = np.repeat(keys, lengths), np.repeat(dates, lengths), int(lengths.sum())
        number = np.arange(count) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
        part, quantity = _drawn(rng, 1, self.parts, count), _drawn(rng, 1, 50, count)
        supplier = self._supplier_of(part, _drawn(rng, 0, 3, count))
        discount, tax = _drawn(rng, 0, 10, count), _drawn(rng, 0, 8, count)
        shipped, committed = ordered + _drawn(rng, 1, 121, count), ordered + _drawn(rng, 30, 90, count)
        received = shipped + _drawn(rng, 1, 30, count)
        price = quantity * _retail(part)
        charge = price * (100 - discount) * (100 + tax) / 10_000
        flags = np.where(received <= _TODAY, np.array(["R", "A"])[_drawn(rng, 0, 1, count)], "N")
        states = np.where(shipped > _TODAY, "O", "F")
        instruct, mode = _chosen(rng, words.INSTRUCTIONS, count), _chosen(rng, words.MODES, count)
        comments = self._comments(rng, count, 10, 43)
        figures = (charge, key, part, supplier, number, quantity, price, discount, tax)
        words_and_dates = (flags, states, shipped, committed, received, instruct, mode, comments)
        for cost, k, p, s, n, amount, cents, less, more, *rest in _together(*figures, *words_and_dates):
            flag, state, at, by, here, *texts = rest
            money = (amount, _money(cents), _money(less), _money(more))
            yield cost, (k, p, s, n, *money, flag, state, _DATES[at], _DATES[by], _DATES[here], *texts)

    def _supplier_of(self, part: Ints, nth: Ints) -> Ints:
        """One of the four that offer a part: where there are few suppliers, four different ones too."""
        count = self.suppliers
        stride = count // 4 + (part - 1) // count % ((count - 1) // 3 - count // 4 + 1)
        return (part + nth * stride) % count + 1

    def _comments(self, rng: np.random.Generator, count: int, least: int, most: int) -> list[str]:
        starts, lengths = _drawn(rng, 0, len(self._text) - most - 1, count), _drawn(rng, least, most, count)
        text = self._text
        return [text[start : start + length] for start, length in _together(starts, lengths)]

    def _rng(self, *of: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *of))


def sparse_keys(n: Ints, offset: int) -> Ints:
    """The nth order has a key among the first eight of 32; with an offset, among others of these."""
    return n // 8 * 32 + n % 8 + offset + 1


def _together(
    *columns: Ints | Sequence[str] | npt.NDArray[np.str_] | npt.NDArray[np.float64],
) -> Iterable[tuple[Any, ...]]:
    return zip(*(one.tolist() if isinstance(one, np.ndarray) else one for one in columns), strict=True)


def _drawn(rng: np.random.Generator, least: int, most: int, count: int) -> Ints:
    return rng.integers(least, most + 1, size=count)


def _chosen(rng: np.random.Generator, names: Sequence[str], count: int) -> list[str]:
    return [names[n] for n in rng.integers(len(names), size=count)]


def _joined(rng: np.random.Generator, syllables: Sequence[Sequence[str]], count: int) -> list[str]:
    return [" ".join(one) for one in zip(*(_chosen(rng, each, count) for each in syllables), strict=True)]


def _customers(rng: np.random.Generator, customers: int, count: int) -> Ints:
    """A third of the customers has no order: those whose key three divides."""
    drawn = _drawn(rng, 0, (customers - 1) - customers // 3, count)
    return drawn // 2 * 3 + drawn % 2 + 1


def _retail(part: Ints) -> Ints:
    return 90_000 + part // 10 % 20_001 + 100 * (part % 1000)


def _addresses(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(_ALPHABET[rng.integers(len(_ALPHABET), size=n)]) for n in _drawn(rng, 10, 40, count)]


def _phones(rng: np.random.Generator, nations: Ints) -> list[str]:
    parts = [
        _drawn(rng, 100, 999, len(nations)),
        _drawn(rng, 100, 999, len(nations)),
        _drawn(rng, 1000, 9999, len(nations)),
    ]
    return [f"{nation + 10}-{a}-{b}-{c}" for nation, a, b, c in _together(nations, *parts)]


def _complaints(rng: np.random.Generator, suppliers: int, scale: float) -> Iterator[tuple[int, str]]:
    each = max(1, round(5 * scale))
    places = rng.choice(suppliers, 2 * each, replace=False).tolist()
    return zip(places, ["Complaints"] * each + ["Recommends"] * each, strict=True)


def _money(cents: int) -> str:
    sign, cents = ("-", -cents) if cents < 0 else ("", cents)
    return f"{sign}{cents // 100}.{cents % 100:02}"
