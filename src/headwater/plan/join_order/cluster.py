"""Clusters: inner joins that stand together, taken apart into their inputs and the conditions among these.

A condition that may fail for a row bounds a cluster: the join or filter that tests it keeps its inputs. So does what
is no inner join. It decides nothing about the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count

from headwater.plan.join_order.safe_condition import never_fails
from headwater.sql.ir.conjunction import parts
from headwater.sql.ir.expr import Call, ColumnRef, Expr
from headwater.sql.ir.relation import Demand, Filter, Join, Relation, Scan, Top, columns_of, inputs_of
from headwater.sql.ir.walk import names_in, references

_INPUTS_MIN = 3  # two are joined in one way only


Tree = int | tuple["Tree", "Tree"]  # the number of an input, or a join of two


@dataclass(frozen=True, slots=True)
class Conjunct:
    """`needs` has a bit for each input whose columns it reads. `group` numbers the columns that an equality is about,
    together with all that equal them."""

    expr: Expr
    needs: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """`conjuncts` are the conditions of ON and WHERE; `implied` are equalities that follow from them. `written` is how
    the query joins the inputs. `plain` are the groups of equal columns that have one column of an input at most: of
    these, one equality between two sides says it all."""

    inputs: tuple[Relation, ...]
    conjuncts: tuple[Conjunct, ...]
    implied: tuple[Conjunct, ...]
    written: Tree
    plain: frozenset[int]


def is_inner(relation: Relation) -> bool:
    """Whether it is part of a cluster, and no input of one."""
    match relation:
        case Join(kind="inner", on=on):
            return on is None or all(map(never_fails, parts("and", on)))
        case Filter(input=input, predicate=predicate):
            return is_inner(input) and all(map(never_fails, parts("and", predicate)))
        case _:
            return False


def inputs_below(relation: Relation) -> tuple[Relation, ...]:
    """The inputs of the cluster whose root this is, from left to right."""
    if not is_inner(relation):
        return (relation,)
    return tuple(found for each in inputs_of(relation) for found in inputs_below(each))


def cluster_of(relation: Relation, *, under_limit: bool = False) -> Cluster | None:
    """None where there is nothing to choose. Under a limit, rows without a key may tie to the last: there the order as
    written decides."""
    inputs = inputs_below(relation)
    if len(inputs) < _INPUTS_MIN or (under_limit and not all(map(_has_key, inputs))):
        return None
    place = {column.name: n for n, each in enumerate(inputs) for column in columns_of(each)}
    conjuncts = _grouped([Conjunct(expr, _needs(expr, place)) for expr in _conditions(relation)])
    return Cluster(
        inputs,
        tuple(conjuncts),
        tuple(_implied(conjuncts, place)),
        _written(relation, count()),
        _plain(conjuncts, place),
    )


def clusters_of(relation: Relation, *, under_limit: bool = False) -> Iterator[Cluster]:
    """All there are, each before those within its inputs."""
    under_limit = under_limit or is_limit(relation)
    if is_inner(relation):
        cluster = cluster_of(relation, under_limit=under_limit)
        if cluster is not None:
            yield cluster
        below = inputs_below(relation)
    else:
        below = inputs_of(relation)
    for each in below:
        yield from clusters_of(each, under_limit=under_limit)


def is_limit(relation: Relation) -> bool:
    return isinstance(relation, Top) and (relation.limit is not None or relation.offset > 0)


def _conditions(relation: Relation) -> Iterator[Expr]:
    """Of a cluster, inputs first: as they are written."""
    if is_inner(relation):
        for each in inputs_of(relation):
            yield from _conditions(each)
        own = (
            relation.on if isinstance(relation, Join) else relation.predicate if isinstance(relation, Filter) else None
        )
        yield from () if own is None else parts("and", own)


def _written(relation: Relation, numbers: Iterator[int]) -> Tree:
    if not is_inner(relation):
        return next(numbers)
    if isinstance(relation, Join):
        left = _written(relation.left, numbers)
        return left, _written(relation.right, numbers)
    return _written(inputs_of(relation)[0], numbers)


def _needs(expr: Expr, place: Mapping[str, int]) -> int:
    bits = 0
    for name in names_in(expr):
        bits |= 1 << place[name]
    return bits


def _has_key(relation: Relation) -> bool:
    match relation:
        case Scan(key=key):
            return bool(key)
        case Filter(input=input) | Demand(input=input):
            return _has_key(input)
        case _:
            return False


# Equalities that follow from others


def equated(expr: Expr) -> tuple[ColumnRef, ColumnRef] | None:
    """The columns of an equality that is transitive: both are of one type and compared as they are."""
    match expr:
        case Call(name="=" | "float8 =", args=(ColumnRef() as one, ColumnRef() as other), collation=collation):
            alike = (one.type, one.sql_type, one.collation) == (other.type, other.sql_type, other.collation)
            return (one, other) if alike and one.collation == collation else None
        case _:
            return None


def _grouped(conjuncts: Sequence[Conjunct]) -> list[Conjunct]:
    """With the number of the columns that equal each other in every row."""
    groups: list[frozenset[str]] = []
    for each in conjuncts:
        pair = frozenset(column.name for column in equated(each.expr) or ())
        met = [group for group in groups if not pair.isdisjoint(group)]
        if pair:
            groups = [*(group for group in groups if group not in met), pair.union(*met)]
    number = {name: n for n, group in enumerate(groups) for name in group}
    pairs = [equated(each.expr) for each in conjuncts]
    return [
        each if pair is None else replace(each, group=number[pair[0].name])
        for each, pair in zip(conjuncts, pairs, strict=True)
    ]


def _plain(conjuncts: Sequence[Conjunct], place: Mapping[str, int]) -> frozenset[int]:
    names: dict[int, set[str]] = {}
    for each in conjuncts:
        if each.group is not None:
            names.setdefault(each.group, set()).update(names_in(each.expr))
    return frozenset(group for group, found in names.items() if len({place[name] for name in found}) == len(found))


def _implied(conjuncts: Sequence[Conjunct], place: Mapping[str, int]) -> Iterator[Conjunct]:
    """a = c of a = b and b = c, for columns of two inputs."""
    columns: dict[int, dict[str, ColumnRef]] = {}
    sample: dict[int, Call] = {}
    told: set[frozenset[str]] = set()
    for each in conjuncts:
        if each.group is not None and isinstance(each.expr, Call):
            columns.setdefault(each.group, {}).update((ref.name, ref) for ref in references(each.expr))
            sample[each.group] = each.expr
            told.add(names_in(each.expr))
    for group, refs in columns.items():
        for one, other in combinations(refs.values(), 2):
            needs = 1 << place[one.name] | 1 << place[other.name]
            if place[one.name] != place[other.name] and frozenset({one.name, other.name}) not in told:
                yield Conjunct(replace(sample[group], args=(one, other)), needs, group)
