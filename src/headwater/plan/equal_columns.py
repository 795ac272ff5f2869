"""Which columns of a relation must have the same value: by the equations of its joins and filters.

Only equations of columns of one type and collation count: there equal values look the same to every index. It never
looks at data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headwater.sql.evaluation import Evaluator
from headwater.sql.ir.conjunction import parts
from headwater.sql.ir.expr import Call, ColumnRef, Expr, Output
from headwater.sql.ir.relation import Demand, Exists, Filter, Group, Join, Mark, Project, Relation, Top

Class = frozenset[str]


def equations(on: Expr | None, evaluator: Evaluator) -> Iterator[Class]:
    """The pairs of columns that are equal where the condition holds."""
    for conjunct in () if on is None else parts("and", on):
        match conjunct:
            case Call("=", (ColumnRef() as one, ColumnRef() as other), _, collation):
                alike = one.type is other.type and one.collation == other.collation == collation
                if alike and evaluator.compares_unchanged(one, other):
                    yield frozenset((one.name, other.name))


def classes(relation: Relation, evaluator: Evaluator) -> list[Class]:
    """Of a row of the relation in which one column of a class has a value that is not NULL, all of them have it."""
    match relation:
        case Filter(input=input, predicate=predicate):
            return merged([*classes(input, evaluator), *equations(predicate, evaluator)])
        case Demand(input=input) | Top(input=input):
            return classes(input, evaluator)
        case Project(input=input, outputs=outputs):
            return _renamed(classes(input, evaluator), _plain(outputs))
        case Group(input=input, keys=keys):
            return _renamed(classes(input, evaluator), _plain(keys))
        case Exists(left=left) | Mark(left=left):
            return classes(left, evaluator)
        case Join(kind=kind, left=left, right=right, on=on):
            inside = [*classes(left, evaluator), *classes(right, evaluator)]
            return merged([*inside, *equations(on, evaluator)]) if kind == "inner" else inside
        case _:
            return []


def merged(some: Iterable[Class]) -> list[Class]:
    """Classes that share a column become one."""
    found: list[Class] = []
    for one in some:
        apart = [each for each in found if not each & one]
        found = [*apart, one.union(*(each for each in found if each & one))]
    return found


def class_of(column: str, some: Iterable[Class]) -> Class:
    return next((each for each in some if column in each), frozenset((column,)))


def _plain(outputs: Iterable[Output]) -> dict[str, list[str]]:
    """The names under which a column is shown."""
    shown: dict[str, list[str]] = {}
    for output in outputs:
        if isinstance(output.expr, ColumnRef):
            shown.setdefault(output.expr.name, []).append(output.name)
    return shown


def _renamed(some: Iterable[Class], names: Mapping[str, list[str]]) -> list[Class]:
    known = {name for each in some for name in each}
    alone = [frozenset(shown) for name, shown in names.items() if name not in known]
    seen = [frozenset(new for name in each for new in names.get(name, ())) for each in some]
    return [each for each in (*seen, *alone) if len(each) > 1]
