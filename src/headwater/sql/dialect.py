"""What one dialect of SQL means where others mean something else.

The binder, the planner and the engine ask their dialect and never its name. Each part is a contract of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.sql.contracts.aggregates import DialectAggregates
    from headwater.sql.contracts.binder import DialectBinder
    from headwater.sql.contracts.names import DialectNames
    from headwater.sql.contracts.order import DialectOrder
    from headwater.sql.contracts.requery import DialectRequery
    from headwater.sql.contracts.syntax import DialectSyntax
    from headwater.sql.contracts.types import DialectTypes
    from headwater.sql.evaluation import Evaluator


@dataclass(frozen=True, slots=True)
class Dialect:
    """`requery` is for queries that could not be bound: only their database can answer them."""

    name: str
    syntax: DialectSyntax
    names: DialectNames
    binder: DialectBinder
    types: DialectTypes
    aggregates: DialectAggregates
    order: DialectOrder
    evaluator: Evaluator
    requery: DialectRequery
