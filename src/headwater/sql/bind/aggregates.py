"""What the expressions of one clause ask for beyond its columns: aggregates, and subqueries to be attached."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.sql.bind.clauses import Attachment, Binder, Environment
from headwater.sql.bind.group_by import Aggregates
from headwater.sql.bind.scope import Bound, Scope
from headwater.sql.rewrite.decorrelate import existing, member, scalar
from headwater.sql.syntax.span import span


@dataclass(slots=True)
class Gathering:
    """A `Clause`. `rows` is the clause that arguments of aggregates stand in: below the groups."""

    binder: Binder
    around: Environment
    scope: Scope
    aggregates: Aggregates | None = None
    rows: Gathering | None = None
    attachments: list[Attachment] = field(default_factory=list)

    def aggregate(self, scope: Scope, node: exp.Anonymous) -> Bound:
        if self.aggregates is None:
            raise scope.error(f"misuse of aggregate: {node.name.lower()}()", span(node))
        return self.aggregates.bind(replace(scope, clause=self.rows), node)

    def scalar(self, scope: Scope, node: exp.Subquery) -> Bound:
        attachment, bound = scalar(self.binder, self.around, scope, node)
        self.attachments.append(attachment)
        return bound

    def exists(self, scope: Scope, node: exp.Exists) -> Bound:
        attachment, bound = existing(self.binder, self.around, scope, node)
        self.attachments.append(attachment)
        return bound

    def contains(self, scope: Scope, node: exp.In, needle: Bound) -> Bound:
        attachment, bound = member(self.binder, self.around, scope, node, needle)
        self.attachments.append(attachment)
        return bound
