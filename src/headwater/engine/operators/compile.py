"""A relation compiled into a tree of operators over scans of base tables; a step runs it from the leaves up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.engine.operators.demand import DemandChange, DemandOperator
from headwater.engine.operators.failures import Failures
from headwater.engine.operators.group.counts_and_sums import RunningOperator, runs
from headwater.engine.operators.group.group import FIRST_TX, GroupOperator
from headwater.engine.operators.join.exists import ExistsOperator, MarkOperator
from headwater.engine.operators.join.join import JoinOperator
from headwater.engine.operators.lineage import noted
from headwater.engine.operators.operator import Operator
from headwater.engine.operators.sets import distinct, set_operator
from headwater.engine.operators.stateless import FilterOperator, ProjectOperator, ScanOperator, ValuesOperator
from headwater.engine.operators.top import TopOperator
from headwater.engine.rows.arrays import Int64s
from headwater.engine.rows.batch import Batch, nothing, together
from headwater.engine.rows.work import Work
from headwater.engine.state.table.scan_index import ScanIndexes
from headwater.model.limits import DEFAULT, Limits
from headwater.model.schema import Table
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
    inputs_of,
)


@dataclass(frozen=True, slots=True)
class Updates:
    """Rows of a base table with `tx` and `diff`."""

    rows: pa.RecordBatch
    tx: Int64s
    diff: Int64s


@dataclass(frozen=True, slots=True)
class StepInput:
    """What a step brings: changes of base tables, or of demand. `first`: all rows there are."""

    tables: Mapping[str, Updates]
    demand: tuple[DemandChange, ...] = ()
    first: bool = False


@dataclass(frozen=True, slots=True)
class ScanLeaf:
    """A leaf that reads a base table."""

    table_name: str
    scan: ScanOperator

    @property
    def table(self) -> Table:
        return self.scan.table

    def step(self, given: StepInput) -> Batch:
        mine = given.tables.get(self.table_name)
        return nothing(self.table) if mine is None else self.scan.read(mine.rows, mine.tx, mine.diff)

    def operators(self) -> Iterator[Operator]:
        return iter(())


@dataclass(frozen=True, slots=True)
class ValuesLeaf:
    """A leaf of constant rows."""

    values: ValuesOperator

    @property
    def table(self) -> Table:
        return self.values.table

    def step(self, given: StepInput) -> Batch:
        return self.values.first(FIRST_TX) if given.first else nothing(self.table)

    def operators(self) -> Iterator[Operator]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Node:
    operator: Operator
    inputs: tuple[Tree, ...]

    @property
    def table(self) -> Table:
        return self.operator.table

    def step(self, given: StepInput) -> Batch:
        inputs = [each.step(given) for each in self.inputs]
        if not given.first and not any(map(len, inputs)):
            return nothing(self.table)
        return self.operator.step(inputs)

    def operators(self) -> Iterator[Operator]:
        """Inputs first, from left to right: the order in which state is saved."""
        for each in self.inputs:
            yield from each.operators()
        yield self.operator


@dataclass(frozen=True, slots=True)
class DemandNode:
    """A step changes the rows of its input, or what is asked for, never both."""

    operator: DemandOperator
    input: Tree

    @property
    def table(self) -> Table:
        return self.operator.table

    @property
    def inputs(self) -> tuple[Tree, ...]:
        return (self.input,)

    def step(self, given: StepInput) -> Batch:
        below = self.operator.step([self.input.step(given)])
        return together([below, self.operator.demanded(given.demand)], self.table) if given.demand else below

    def operators(self) -> Iterator[Operator]:
        yield from self.input.operators()
        yield self.operator


Tree = ScanLeaf | ValuesLeaf | Node | DemandNode


def compiled(
    relation: Relation,
    tables: Mapping[str, Table],
    work: Work,
    failures: Failures,
    limits: Limits = DEFAULT,
    scans: ScanIndexes | None = None,
) -> Tree:
    """`failures` have the lineage of the relation itself. With `scans`, operators over scans read the stores of the
    tables; otherwise they hold the rows themselves."""
    if isinstance(relation, Scan):
        return ScanLeaf(relation.table, ScanOperator(relation, tables[relation.table]))
    if isinstance(relation, Values):
        return ValuesLeaf(ValuesOperator(relation))
    if isinstance(relation, Top) and passes(relation):
        return compiled(relation.input, tables, work, failures, limits, scans)
    below = zip(inputs_of(relation), failures.beneath(relation), strict=True)
    inputs = tuple(compiled(each, tables, work, noted_there, limits, scans) for each, noted_there in below)
    if isinstance(relation, Demand):
        return DemandNode(DemandOperator(relation, inputs[0].table, work, scans), inputs[0])
    noting = failures.along(noted(relation, failures.lineage))
    return Node(_operator(relation, [each.table for each in inputs], work, noting, limits, scans), inputs)


def passes(top: Top) -> bool:
    """An order that no limit follows says nothing of which rows there are."""
    return top.limit is None and not top.offset


def _operator(
    relation: Relation,
    tables: list[Table],
    work: Work,
    failures: Failures,
    limits: Limits,
    scans: ScanIndexes | None,
) -> Operator:
    match relation:
        case Filter():
            return FilterOperator(relation, tables[0], failures)
        case Project():
            return ProjectOperator(relation, tables[0], failures)
        case Join():
            return JoinOperator(relation, tables[0], tables[1], work, failures, scans)
        case Exists():
            return ExistsOperator(relation, tables[0], tables[1], work, failures, scans)
        case Mark():
            return MarkOperator(relation, tables[0], tables[1], work, failures, scans)
        case Group():
            if runs(relation, tables[0]):
                return RunningOperator(relation, tables[0], work, failures)
            return GroupOperator(relation, tables[0], work, failures, limits)
        case Distinct():
            return distinct(tables[0], work)
        case SetOperation():
            return set_operator(relation, tables[0], tables[1], work)
        case Top():
            return TopOperator(relation, tables[0], work, failures, limits)
        case Scan() | Values() | Demand():
            raise ValueError("has no operator of this kind")


def base_tables(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Scan):
        yield relation.table
    for each in inputs_of(relation):
        yield from base_tables(each)
