"""Cost curves: a change against more rows, and against more subscriptions, in one plot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.flowing import opened
from bench.traffic import Traffic

_ROWS = (1_000, 10_000, 100_000, 1_000_000)
_SUBSCRIPTIONS = (1, 10, 100, 1_000, 10_000, 100_000)
_SUBSCRIBED_ROWS = 100_000
_QUERIES = {
    "filter": "SELECT id, amount FROM orders WHERE amount < 500000000",
    "join": "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON o.customer = c.id",
    "group-by": "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "top-100": "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 100",
}
_TEMPLATE = "SELECT id, amount FROM orders WHERE customer = 0"


@dataclass(frozen=True, slots=True)
class Point:
    """The cost of a change in µs: in steps of a hundred, and alone."""

    what: str
    against: str
    size: int
    together_us: float
    alone_us: float


def measure(seconds: float) -> Iterator[Point]:
    for what, sql in _QUERIES.items():
        for rows in _ROWS:
            yield _point(what, "rows", rows, sql, Traffic(rows, max(rows // 10, 100)), 1, seconds)
    for count in _SUBSCRIPTIONS:
        traffic = Traffic(_SUBSCRIBED_ROWS, _SUBSCRIPTIONS[-1])
        yield _point("template", "subscriptions", count, _TEMPLATE, traffic, count, seconds)


def _point(what: str, against: str, size: int, sql: str, traffic: Traffic, count: int, seconds: float) -> Point:
    flowing = opened(sql, traffic, count)
    together, alone = (np.mean(flowing.costs(seconds, changes)) / changes * 1e6 for changes in (100, 1))
    return Point(what, against, size, float(together), float(alone))


def plot(points: list[Point], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, against in zip(axes, ("rows", "subscriptions"), strict=True):
        for what in dict.fromkeys(point.what for point in points if point.against == against):
            mine = [point for point in points if point.what == what]
            sizes = [point.size for point in mine]
            (line,) = axis.plot(sizes, [point.together_us for point in mine], "o-", label=f"{what}, steps of 100")
            axis.plot(sizes, [point.alone_us for point in mine], "s--", color=line.get_color(), label=f"{what}, alone")
        axis.set(xscale="log", yscale="log", xlabel=against, title=f"cost of a change against {against}")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, ncols=2)
    axes[0].set_ylabel("µs of CPU a change")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
