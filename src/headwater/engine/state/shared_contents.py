"""Sides of joins that hold the same rows of a table by the same key share their runs.

Runs never change, so that two sides with equal contents can hold the same ones. Each goes on by itself from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.engine.state.bag import Bag, BagRun, Contents
from headwater.model.value import Type
from headwater.sql.ir.relation import Filter, Relation, Scan


@dataclass(frozen=True, slots=True)
class Scanned:
    """Columns of a base table, the rows of it that pass a test, and how they are found again."""

    table: str
    names: tuple[str, ...]
    types: tuple[Type, ...]
    test: str
    places: tuple[int, ...]
    collations: tuple[str, ...]
    null_safe: tuple[bool, ...]
    null_aware: bool


def contents(
    relation: Relation,
    places: tuple[int, ...],
    collations: tuple[str, ...],
    null_safe: tuple[bool, ...],
    *,
    null_aware: bool,
) -> Contents | None:
    """None for what was computed: whether two such relations are the same is not for us to find out."""
    match relation:
        case Scan():
            scan, test = relation, ""
        case Filter(input=Scan() as scan, predicate=predicate):
            test = repr((predicate, [column.name for column in scan.columns]))
        case _:
            return None
    types = tuple(column.type for column in scan.columns)
    return Scanned(scan.table, scan.names, types, test, places, collations, null_safe, null_aware)


def share_contents(new: Iterable[Bag], others: Iterable[Bag]) -> None:
    """Bags that were just filled take the runs of those that hold the same rows already."""
    known = {bag.contents: bag for bag in others if bag.contents is not None}
    for bag in new:
        if bag.contents is not None:
            donor = known.setdefault(bag.contents, bag)
            bag.runs = [run.under(bag.schema) for run in donor.runs]


def share_files(bags: Iterable[Bag]) -> None:
    """Bags that were just saved: runs with one file are held once."""
    known: dict[str, BagRun] = {}
    for bag in bags:
        bag.runs = [known.setdefault(run.file or "", run).under(bag.schema) for run in bag.runs]
