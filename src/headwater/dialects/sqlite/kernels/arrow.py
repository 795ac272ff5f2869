"""Expressions as `pyarrow.compute` calls, where those agree with SQLite bit for bit.

A kernel exists only where the static types make it exact. What shows only in the data (an overflow, an integer that no
double holds, a NUL in a text) raises `pa.ArrowInvalid`: the batch is in doubt, and SQLite evaluates it instead.
Nothing here ever guesses.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headwater.dialects.sqlite.affinity import Affinity, affinity_of_type
from headwater.model.schema import Table
from headwater.model.value import Type
from headwater.sql.evaluation import ArrowColumn, Kernel, Run, any_of
from headwater.sql.ir.expr import Call, Case, Cast, ColumnRef, Const, Expr

_NUMBERS = (Type.INTEGER, Type.REAL)
_COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NULL = {type: pa.scalar(None, type.arrow) for type in Type}
_ZERO = {Type.INTEGER: pa.scalar(0, pa.int64()), Type.REAL: pa.scalar(0.0, pa.float64())}
_UNKNOWN = pa.scalar(None, pa.bool_())


def compile_kernel(expr: Expr, table: Table) -> Kernel | None:
    """None where only SQLite is exact."""
    match expr:
        case ColumnRef(name=name):
            return _column(expr, table.index(name), table.column(name).type)
        case Const(value=value, type=type) if type is not None and type is not Type.ANY:
            scalar = pa.scalar(value, type.arrow)
            return Kernel(lambda _: scalar, type)
        case Call():
            return _call(expr, table)
        case Case():
            return _case(expr, table)
        case Cast(sql_type=Affinity.REAL, arg=arg):
            kernel = compile_kernel(arg, table)
            return _mapped(_real, kernel, Type.REAL) if _numeric(kernel) else None
        case _:
            return None


def _column(ref: ColumnRef, place: int, type: Type) -> Kernel | None:
    """A text in a column of numeric affinity compares like nothing else: left to SQLite."""
    odd = type is Type.ANY or (
        type is Type.TEXT and affinity_of_type(ref.sql_type) not in (Affinity.TEXT, Affinity.BLOB)
    )
    return None if odd else Kernel(lambda batch: batch.column(place), type)


def _call(call: Call, table: Table) -> Kernel | None:
    if call.name in ("is", "isnot") and call.args[1] == Const(None, None):
        return _null_test(call, table)
    build = _CALLS.get(call.name)
    kernels = [compile_kernel(arg, table) for arg in call.args]
    known = [kernel for kernel in kernels if kernel is not None]
    if build is None or len(known) < len(kernels) or not kernels:
        return None
    kernel = build(call, known)
    return kernel if kernel is not None and call.type in (kernel.type, None) else None


def _null_test(call: Call, table: Table) -> Kernel | None:
    kernel = compile_kernel(call.args[0], table)
    if kernel is None:
        return None
    test = pc.is_null if call.name == "is" else pc.is_valid
    return Kernel(lambda batch: test(kernel.run(batch)), Type.INTEGER, truth=True)


def _case(case: Case, table: Table) -> Kernel | None:
    whens = [(compile_kernel(when, table), compile_kernel(then, table)) for when, then in case.whens]
    default = compile_kernel(case.default, table)
    if case.default == Const(None, None) and case.type is not None:
        null = _NULL[case.type]
        default = Kernel(lambda _: null, case.type)
    if default is None or case.type in (None, Type.ANY):
        return None
    kernel = _plain(default)
    for when, then in reversed(whens):
        truth = _truth(when)
        if truth is None or then is None:
            return None
        kernel = _branch(truth, _plain(then), kernel)
    same = all(then is not None and then.type is case.type for _, then in whens) and default.type is case.type
    return kernel if same else None


def _branch(when: Kernel, then: Kernel, otherwise: Kernel) -> Kernel:
    def run(batch: pa.RecordBatch) -> ArrowColumn:
        return pc.if_else(pc.fill_null(when.run(batch), False), then.run(batch), otherwise.run(batch))

    return Kernel(run, then.type)


def _numeric(kernel: Kernel | None) -> bool:
    return kernel is not None and kernel.type in _NUMBERS


def _plain(kernel: Kernel) -> Kernel:
    """Truth as INTEGER, where it is computed with."""
    return Kernel(lambda batch: pc.cast(kernel.run(batch), pa.int64()), kernel.type) if kernel.truth else kernel


def _truth(kernel: Kernel | None) -> Kernel | None:
    if kernel is None or kernel.truth:
        return kernel
    if not _numeric(kernel):
        return None
    zero = _ZERO[kernel.type]
    return Kernel(lambda batch: pc.not_equal(kernel.run(batch), zero), Type.INTEGER, truth=True)


def _mapped(function: Callable[[ArrowColumn], ArrowColumn], kernel: Kernel | None, type: Type) -> Kernel | None:
    if kernel is None:
        return None
    plain = _plain(kernel)
    return Kernel(lambda batch: function(plain.run(batch)), type)


def _real(column: ArrowColumn) -> ArrowColumn:
    """As SQLite does in arithmetic: the nearest double."""
    return pc.cast(column, pa.float64(), safe=False)


def _exact_real(column: ArrowColumn) -> ArrowColumn:
    """For comparison: in doubt where an integer is no double."""
    return pc.cast(column, pa.float64())


def _refuse_nul(column: ArrowColumn) -> ArrowColumn:
    if bool(
        pc.any(pc.match_substring(column, "\x00")).as_py() if isinstance(column, pa.Array) else "\x00" in str(column)
    ):
        raise pa.ArrowInvalid("a text with a NUL")
    return column


def _folded(column: ArrowColumn) -> ArrowColumn:
    return pc.ascii_lower(_refuse_nul(column))


def _comparable(a: Kernel, b: Kernel, collation: str) -> tuple[Run, Run] | None:
    """Both sides made comparable by one Arrow kernel; None where SQLite's rules are more than that."""
    a, b = _plain(a), _plain(b)
    if a.type in _NUMBERS and b.type in _NUMBERS:
        if a.type is b.type:
            return a.run, b.run
        return (lambda batch: _exact_real(a.run(batch))), (lambda batch: _exact_real(b.run(batch)))
    if a.type is not b.type or collation not in ("BINARY", "NOCASE"):
        return None
    if a.type is Type.TEXT and collation == "NOCASE":
        return (lambda batch: _folded(a.run(batch))), (lambda batch: _folded(b.run(batch)))
    return a.run, b.run


def _compare(name: str, a: Kernel, b: Kernel, collation: str) -> Kernel | None:
    sides = _comparable(a, b, collation)
    if sides is None:
        return None
    (left, right), compare = sides, _COMPARISONS[name]
    return Kernel(lambda batch: compare(left(batch), right(batch)), Type.INTEGER, truth=True)


def _comparison(call: Call, args: list[Kernel]) -> Kernel | None:
    return _compare(call.name, args[0], args[1], call.collation)


def _same(call: Call, args: list[Kernel]) -> Kernel | None:
    """IS and IS NOT: never NULL."""
    sides = _comparable(args[0], args[1], call.collation)
    if sides is None:
        return None
    left, right = sides

    def run(batch: pa.RecordBatch) -> ArrowColumn:
        a, b = left(batch), right(batch)
        same = pc.if_else(pc.or_(pc.is_null(a), pc.is_null(b)), pc.equal(pc.is_null(a), pc.is_null(b)), pc.equal(a, b))
        return same if call.name == "is" else pc.invert(same)

    return Kernel(run, Type.INTEGER, truth=True)


def _logical(call: Call, args: list[Kernel]) -> Kernel | None:
    a, b = _truth(args[0]), _truth(args[1])
    if a is None or b is None:
        return None
    combine = pc.and_kleene if call.name == "and" else pc.or_kleene
    return Kernel(lambda batch: combine(a.run(batch), b.run(batch)), Type.INTEGER, truth=True)


def _inverted(kernel: Kernel | None) -> Kernel | None:
    if kernel is None:
        return None
    return Kernel(lambda batch: pc.invert(kernel.run(batch)), Type.INTEGER, truth=True)


def _not(call: Call, args: list[Kernel]) -> Kernel | None:
    return _inverted(_truth(args[0]))


def _in(call: Call, args: list[Kernel]) -> Kernel | None:
    """`x IN (a, b)` is `x = a OR x = b`, for three-valued logic too."""
    compared = [_compare("=", args[0], item, call.collation) for item in args[1:]]
    tests = [test for test in compared if test is not None]
    if not tests or len(tests) < len(compared):
        return None
    kernel = Kernel(any_of(tests), Type.INTEGER, truth=True)
    return _inverted(kernel) if call.name == "notin" else kernel


def _between(call: Call, args: list[Kernel]) -> Kernel | None:
    low, high = (_compare(name, args[0], args[n], call.collation) for n, name in ((1, ">="), (2, "<=")))
    if low is None or high is None:
        return None
    inside = _logical(Call("and", (), Type.INTEGER), [low, high])
    return _inverted(inside) if call.name == "notbetween" else inside


def _like(call: Call, args: list[Kernel]) -> Kernel | None:
    """Arrow folds case by Unicode, SQLite by ASCII: a batch beyond ASCII is in doubt."""
    pattern = call.args[1]
    if len(args) != 2 or args[0].type is not Type.TEXT or not isinstance(pattern, Const):
        return None
    like = str(pattern.value)
    if "\\" in like or "\x00" in like or not like.isascii():
        return None

    def run(batch: pa.RecordBatch) -> ArrowColumn:
        column = _refuse_nul(args[0].run(batch))
        if not isinstance(column, pa.Array) or pc.all(pc.string_is_ascii(column)).as_py() not in (True, None):
            raise pa.ArrowInvalid("a text beyond ASCII")
        return pc.match_like(column, like, ignore_case=True)

    kernel = Kernel(run, Type.INTEGER, truth=True)
    return _inverted(kernel) if call.name == "notlike" else kernel


def _nan_is_null(column: ArrowColumn) -> ArrowColumn:
    return pc.if_else(pc.is_nan(column), _NULL[Type.REAL], column)


def _arithmetic(
    integers: Callable[..., ArrowColumn], reals: Callable[..., ArrowColumn]
) -> Callable[..., Kernel | None]:
    def build(call: Call, args: list[Kernel]) -> Kernel | None:
        if not all(_numeric(arg) for arg in args):
            return None
        runs = [_plain(arg).run for arg in args]
        if all(arg.type is Type.INTEGER for arg in args):
            return Kernel(lambda batch: integers(*(run(batch) for run in runs)), Type.INTEGER)
        return Kernel(lambda batch: _nan_is_null(reals(*(_real(run(batch)) for run in runs))), Type.REAL)

    return build


def _divisor(column: ArrowColumn, zero: ArrowColumn) -> ArrowColumn:
    return pc.if_else(pc.equal(column, zero), pa.scalar(None, zero.type), column)


def _divide_integers(a: ArrowColumn, b: ArrowColumn) -> ArrowColumn:
    return pc.divide_checked(a, _divisor(b, _ZERO[Type.INTEGER]))


def _divide_reals(a: ArrowColumn, b: ArrowColumn) -> ArrowColumn:
    return pc.divide(a, _divisor(b, _ZERO[Type.REAL]))


def _remainder(a: ArrowColumn, b: ArrowColumn) -> ArrowColumn:
    return pc.subtract(a, pc.multiply(_divide_integers(a, b), b))


def _modulo(call: Call, args: list[Kernel]) -> Kernel | None:
    """Reals are cast to integers first, by rules of SQLite's own."""
    if any(arg.type is not Type.INTEGER for arg in args):
        return None
    return _arithmetic(_remainder, _remainder)(call, args)


def _negative(call: Call, args: list[Kernel]) -> Kernel | None:
    """SQLite computes `0 - x`: there is no negative zero."""
    return _arithmetic(pc.negate_checked, lambda column: pc.subtract(_ZERO[Type.REAL], column))(call, args)


def _magnitude(column: ArrowColumn) -> ArrowColumn:
    """SQLite turns the sign of what is below zero, and -0.0 is not."""
    return pc.if_else(pc.less(column, _ZERO[Type.REAL]), pc.negate(column), column)


def _concatenated(call: Call, args: list[Kernel]) -> Kernel | None:
    if any(arg.type is not Type.TEXT for arg in args):
        return None
    a, b = args
    empty = pa.scalar("", pa.large_string())
    return Kernel(lambda batch: pc.binary_join_element_wise(a.run(batch), b.run(batch), empty), Type.TEXT)


def _cased(function: Callable[[ArrowColumn], ArrowColumn]) -> Callable[..., Kernel | None]:
    def build(call: Call, args: list[Kernel]) -> Kernel | None:
        return _mapped(function, args[0], Type.TEXT) if args[0].type is Type.TEXT else None

    return build


def _length(call: Call, args: list[Kernel]) -> Kernel | None:
    def characters(column: ArrowColumn) -> ArrowColumn:
        return pc.cast(pc.utf8_length(_refuse_nul(column)), pa.int64())

    return _mapped(characters, args[0], Type.INTEGER) if args[0].type is Type.TEXT else None


def _coalesced(call: Call, args: list[Kernel]) -> Kernel | None:
    if len({arg.type for arg in args}) > 1:
        return None
    runs = [_plain(arg).run for arg in args]
    return Kernel(lambda batch: pc.coalesce(*(run(batch) for run in runs)), args[0].type)


_CALLS: dict[str, Callable[[Call, list[Kernel]], Kernel | None]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(("is", "isnot"), _same),
    **dict.fromkeys(("and", "or"), _logical),
    **dict.fromkeys(("in", "notin"), _in),
    **dict.fromkeys(("between", "notbetween"), _between),
    **dict.fromkeys(("like", "notlike"), _like),
    **dict.fromkeys(("coalesce", "ifnull"), _coalesced),
    "not": _not,
    "+": _arithmetic(pc.add_checked, pc.add),
    "-": _arithmetic(pc.subtract_checked, pc.subtract),
    "*": _arithmetic(pc.multiply_checked, pc.multiply),
    "/": _arithmetic(_divide_integers, _divide_reals),
    "%": _modulo,
    "neg": _negative,
    "abs": _arithmetic(pc.abs_checked, _magnitude),
    "||": _concatenated,
    "lower": _cased(pc.ascii_lower),
    "upper": _cased(pc.ascii_upper),
    "length": _length,
}
