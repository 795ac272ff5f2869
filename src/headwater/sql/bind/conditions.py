"""The conjuncts of WHERE, HAVING and ON: what each needs, and which of them may be left to the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from headwater.sql.bind.aggregates import Gathering
from headwater.sql.bind.clauses import Attachment, Binder, Environment
from headwater.sql.bind.scope import Scope
from headwater.sql.ir.conjunction import operands, parts
from headwater.sql.ir.expr import Expr
from headwater.sql.ir.predicate import Ask
from headwater.sql.rewrite.decorrelate import as_condition

_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)


@dataclass(frozen=True, slots=True)
class OpenColumns:
    """The columns that may be asked for at the relation's top: `passing` in any way, `equal` by one value alone."""

    passing: frozenset[str]
    equal: frozenset[str]

    def to(self, ask: Ask) -> bool:
        return ask.column.name in (self.equal if ask.op == "=" else self.passing)


NOTHING_OPEN = OpenColumns(frozenset(), frozenset())


@dataclass(slots=True)
class WhereConditions:
    """The conjuncts of WHERE by what they need: nothing, a semi join, or what `gathering` attaches first."""

    binder: Binder
    around: Environment
    scope: Scope
    gathering: Gathering
    plain: list[Expr] = field(default_factory=list)
    late: list[Expr] = field(default_factory=list)
    semis: list[Attachment] = field(default_factory=list)

    def add(self, where: exp.Where, open: OpenColumns, take: Callable[[Expr, exp.Expr, OpenColumns], bool]) -> bool:
        """False where the conjunct was taken to be lifted."""
        before = len(self.gathering.attachments)
        found = as_condition(self.binder, self.around, self.scope, where.this)
        if isinstance(found, Attachment):
            self.semis.append(found)
        elif take(found, where.this, open):
            return False
        else:
            (self.late if len(self.gathering.attachments) > before else self.plain).extend(parts("and", found))
        return True


def split_conjuncts(scope: Scope, written: exp.Expr) -> list[exp.Where]:
    """Each in a clause of its own, where others may take its place. An alias is what it stands for."""
    found: list[exp.Where] = []
    for node in operands(written, exp.And):
        meant = scope.alias(node) if isinstance(node, exp.Column) else None
        split = meant is not None and not meant.find(exp.Boolean)  # a word that an alias may be called by
        found += split_conjuncts(scope, meant) if split and meant else [exp.Where(this=node.copy())]
    return found


def compared_node(node: exp.Expr) -> exp.Expr | None:
    """How a comparison names its column, or its aggregate."""
    if not isinstance(node, _COMPARISONS):
        return None
    sides = (node.this, node.args.get("expression"))
    return next((side for side in sides if isinstance(side, exp.Column | exp.Anonymous)), None)


def all_of(conditions: Sequence[exp.Where]) -> exp.Expr | None:
    return reduce(_and_nodes, [condition.this for condition in conditions]) if conditions else None


def _and_nodes(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)
