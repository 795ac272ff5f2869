"""Template and Instance: a query with its liftable constants taken out, and one set of such constants.

Two queries that differ only in lifted constants share a template; a subscription is an instance of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.value import Row, Value
from headwater.sql.ir.expr import Expr, OrderKey, Output
from headwater.sql.ir.predicate import Op
from headwater.sql.ir.relation import Relation, tables_of


@dataclass(frozen=True, slots=True)
class Selector:
    """A column that instances ask for otherwise than by one value: by a list of them, or by a bound."""

    column: str
    op: Op


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of `table` where each of `keys` equals the instance's value, each of `selectors` holds of the instance's
    value or list, and `where` holds.

    `sql` is the canonical text with lifted constants as `:p1, :p2, …`; binding it again gives an equal template.
    `order` is the effective order: the user's keys, then the identity columns; empty where the result is unordered.
    A template is `framed` when it has LIMIT or OFFSET; their numbers belong to the instance.

    With a `relation` the template is over its columns, and `table` is a name made from it: `~` and a fingerprint;
    without one it is over a base table, and needs no operator. A scalar aggregate has a row for any values: where the
    relation has none, its other columns are as `empty` says.
    """

    id: str
    sql: str
    table: str
    keys: tuple[str, ...]
    where: Expr | None
    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...]
    framed: bool
    relation: Relation | None = None
    empty: tuple[tuple[str, Value], ...] | None = None
    dialect: str = "sqlite"
    selectors: tuple[Selector, ...] = ()

    @property
    def lifted(self) -> tuple[tuple[str, Op], ...]:
        """What stands before `:p1, :p2, …`: a column and how it is compared."""
        return (*((key, "=") for key in self.keys), *((each.column, each.op) for each in self.selectors))

    @property
    def ordered(self) -> bool:
        return bool(self.order)

    @property
    def tables(self) -> frozenset[str]:
        """The base tables it reads."""
        return frozenset({self.table}) if self.relation is None else tables_of(self.relation)


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is a stable 63-bit hash of all the rest. `values` stand for the template's `keys`, then for its `selectors`,
    with the columns' affinity applied. An IN list is one value: a row of its values, each once, in their order."""

    id: int
    template: str
    values: Row = ()
    limit: int | None = None
    offset: int = 0

    def keyed(self, template: Template) -> Row:
        """The values that stand for the template's keys."""
        return self.values[: len(template.keys)]

    def selected(self, template: Template) -> tuple[tuple[Selector, Row], ...]:
        """The template's selectors, each with its value or its list of them."""
        given = zip(template.selectors, self.values[len(template.keys) :], strict=True)
        return tuple((one, value if one.op == "in" and isinstance(value, tuple) else (value,)) for one, value in given)


def key_columns(template: Template) -> tuple[str, ...]:
    """By which the rows of its table are asked for, where that is held by key: those that are compared by `=`; where
    there are none, the first that is compared with a list. A column that is asked for by bounds is no key."""
    return template.keys or next(((one.column,) for one in template.selectors if one.op == "in"), ())


def wanted_keys(template: Template, instance: Instance) -> tuple[Row, ...]:
    """The values of these columns that an instance asks for."""
    if template.keys:
        return (instance.keyed(template),)
    listed = (values for one, values in instance.selected(template) if one.op == "in")
    return tuple((value,) for value in next(listed, ()))
