"""Collations of expressions: which one an operand brings into a comparison, and which of two wins. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

COLLATIONS = ("BINARY", "NOCASE")  # those by which the engine compares and orders


@dataclass(frozen=True, slots=True)
class Collating:
    """The collation an expression brings into a comparison. `explicit`: a COLLATE stands somewhere inside it."""

    name: str | None = None
    explicit: bool = False


NEUTRAL = Collating()


def compared(left: Collating, right: Collating) -> Collating:
    """Of two operands: an explicit COLLATE first, then the left, then the right."""
    if left.explicit or not right.explicit:
        return left if left.name is not None else right
    return right


def first_named(args: Iterable[Collating]) -> Collating:
    """Of min(), max() and nullif(): the first argument that has any."""
    return next((arg for arg in args if arg.name is not None), NEUTRAL)


def carried(args: Iterable[Collating]) -> Collating:
    """Out of an operator or function only an explicit COLLATE is carried, the first."""
    return next((arg for arg in args if arg.explicit), NEUTRAL)
