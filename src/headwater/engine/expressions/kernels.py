"""The Arrow kernels of expressions. Those of many expressions are kept for a moment: the thread that activates a wide
template compiles them, and a cell of the same process finds them.

A kernel has no state, so threads may share it. Nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from headwater.dialects.registry import DIALECTS
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.evaluation import Kernel
from headwater.sql.ir.expr import Expr

WIDE = 100  # expressions: to compile so many takes milliseconds
_KEPT_MAX = 8
Kernels = list[Kernel | None]
_kept: dict[int, tuple[tuple[Expr, ...], Table, Kernels]] = {}  # by the address of the first expression


def kernels_of(exprs: Sequence[Expr], table: Table) -> Kernels:
    """None for an expression that only row-by-row evaluation computes exactly."""
    return _compiled(exprs, table) if len(exprs) < WIDE else _shared(exprs, table)


def _shared(exprs: Sequence[Expr], table: Table) -> Kernels:
    """Those compiled before for the same objects: to compare them by value would take as long as to compile them."""
    known = _kept.get(id(exprs[0]))
    if known is not None and known[1] == table and len(known[0]) == len(exprs) and all(map(is_, known[0], exprs)):
        return known[2]
    compiled = _compiled(exprs, table)
    for oldest in list(_kept)[: max(0, len(_kept) + 1 - _KEPT_MAX)]:
        _kept.pop(oldest, None)
    _kept[id(exprs[0])] = tuple(exprs), table, compiled
    return compiled


def _compiled(exprs: Sequence[Expr], table: Table) -> Kernels:
    evaluator = DIALECTS[table.dialect].evaluator
    kernels = (evaluator.kernel(expr, table) for expr in exprs)
    return [
        kernel if kernel is not None and kernel.type is (expr.type or Type.ANY) else None
        for kernel, expr in zip(kernels, exprs, strict=True)
    ]
