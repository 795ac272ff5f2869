"""Conditions on PostgreSQL as `pyarrow.compute` calls over whole batches, where those agree with it exactly.

Comparisons of values of one type whose order is that of their Arrow form, IN, IS NULL, AND, OR, NOT, and CASE over
them: none of these can fail. Doubles and numeric have an order of their own, and are not here; what has no kernel is
evaluated row by row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.schema import Table
from headwater.model.value import ALIKE, Type, to_array
from headwater.sql.evaluation import Kernel, Run, any_of
from headwater.sql.ir.expr import Call, Case, ColumnRef, Const, Expr

Types = frozenset[Type]
_COMPARED: Types = ALIKE | {Type.INTEGER, Type.TEXT, Type.BLOB, Type.BOOLEAN}
_COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CONNECTIONS = {"and": pc.and_kleene, "or": pc.or_kleene}
_UNKNOWN = pa.scalar(None, pa.bool_())


def compile_condition(expr: Expr, table: Table) -> Kernel | None:
    """None where only the rules for single rows are exact."""
    return _compiled(expr, table, _COMPARED)


def compile_plain(expr: Expr, table: Table) -> Kernel | None:
    """The same over columns without NaN: such doubles have the order that Arrow gives them."""
    return _compiled(expr, table, _COMPARED | {Type.REAL})


def _compiled(expr: Expr, table: Table, compared: Types) -> Kernel | None:
    match expr:
        case ColumnRef(name=name, type=type) if table.column(name).type is type:
            place = table.index(name)
            return Kernel(lambda batch: batch.column(place), type)
        case Const(value=value, type=type) if type in compared:
            scalar = to_array([value], type)[0]
            return Kernel(lambda _: scalar, type)
        case Call():
            return _call(expr, table, compared)
        case Case(type=type) if type in compared:
            return _case(expr, type, table, compared)
        case _:
            return None


def _call(call: Call, table: Table, compared: Types) -> Kernel | None:
    if call.name in ("is", "isnot") and call.args[1] == Const(None, None):
        return _null_test(call, table)
    kernels = [kernel for arg in call.args if (kernel := _compiled(arg, table, compared)) is not None]
    if len(kernels) < len(call.args):
        return None
    types = {kernel.type for kernel in kernels}
    if call.name in _CONNECTIONS and types == {Type.BOOLEAN}:
        return _connected(call.name, kernels)
    if call.name == "not" and types == {Type.BOOLEAN}:
        inner = kernels[0]
        return _truth(lambda batch: pc.invert(inner.run(batch)))
    if len(types) != 1 or not types <= compared or not isinstance(call.args[0], ColumnRef):
        return None
    if call.name != "in":
        return _compared(call.name, kernels)
    return _member(call, kernels[0]) if types != {Type.REAL} else _equal_to_any(kernels)


def _truth(run: Run) -> Kernel:
    return Kernel(run, Type.BOOLEAN)


def _null_test(call: Call, table: Table) -> Kernel | None:
    kernel = _compiled(call.args[0], table, _COMPARED) if isinstance(call.args[0], ColumnRef) else None
    test = pc.is_null if call.name == "is" else pc.is_valid
    return None if kernel is None else _truth(lambda batch: test(kernel.run(batch)))


def _connected(name: str, kernels: list[Kernel]) -> Kernel:
    connect, (one, other) = _CONNECTIONS[name], kernels
    return _truth(lambda batch: connect(one.run(batch), other.run(batch)))


def _compared(name: str, kernels: list[Kernel]) -> Kernel | None:
    compare = _COMPARISONS.get(name)
    if compare is None:
        return None
    one, other = kernels
    return _truth(lambda batch: compare(one.run(batch), other.run(batch)))


def _member(call: Call, needle: Kernel) -> Kernel | None:
    """NULL is no member of anything, and whatever is not found may be equal to a NULL in the list."""
    values = [arg.value for arg in call.args[1:] if isinstance(arg, Const)]
    if len(values) < len(call.args) - 1:
        return None
    known = to_array([value for value in values if value is not None], needle.type)
    otherwise = _UNKNOWN if None in values else pa.scalar(False)

    def run(batch: pa.RecordBatch) -> pa.Array:
        column = needle.run(batch)
        found = pc.if_else(pc.is_in(column, value_set=known), pa.scalar(True), otherwise)
        return pc.if_else(pc.is_null(column), _UNKNOWN, found)

    return _truth(run)


def _equal_to_any(kernels: list[Kernel]) -> Kernel | None:
    """Of doubles: Arrow's own test of membership tells the two zeros apart."""
    needle, *items = kernels
    tests = [test for item in items if (test := _compared("=", [needle, item])) is not None]
    return _truth(any_of(tests)) if tests else None


def _case(case: Case, type: Type, table: Table, compared: Types) -> Kernel | None:
    default = _compiled(_typed(case.default, type), table, compared)
    for when, then in reversed(case.whens):
        test, value = _compiled(when, table, compared), _compiled(_typed(then, type), table, compared)
        if test is None or value is None or default is None:
            return None
        if test.type is not Type.BOOLEAN or not value.type is default.type is type:
            return None
        default = _branch(test, value, default)
    return default


def _typed(expr: Expr, type: Type) -> Expr:
    return Const(None, type) if expr == Const(None, None) else expr


def _branch(test: Kernel, value: Kernel, otherwise: Kernel) -> Kernel:
    def run(batch: pa.RecordBatch) -> pa.Array:
        return pc.if_else(pc.fill_null(test.run(batch), False), value.run(batch), otherwise.run(batch))

    return Kernel(run, value.type)
