"""Failures: rows for which the source would raise an error, what is known of them, and when they come and go.

While such a row exists, an instance that asks for values it may have gets an error, as in the source. Which instances
these are is decided in `engine/windows/failing_groups.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.engine.expressions.evaluator import Expressions
from headwater.engine.operators.lineage import Lineage, Traced, beneath, names_of
from headwater.engine.rows.arrays import Int64s
from headwater.engine.rows.batch import Batch
from headwater.model.encoding.keys import encode_columns
from headwater.model.limits import DEFAULT
from headwater.model.value import field_type
from headwater.sql.ir.relation import Join, Relation, inputs_of

_VALUE_BYTES_MAX = 1024  # a longer value counts as not known
_MANY = "more rows fail than can be told apart"


@dataclass(frozen=True, slots=True)
class Failure:
    """`told`: of each column of the relation the value there, encoded; None where it may be any."""

    reason: str
    told: tuple[bytes | None, ...]

    @property
    def blurred(self) -> Failure:
        """Of a row of which nothing is known."""
        return Failure(_MANY, (None,) * len(self.told))


@dataclass(frozen=True, slots=True)
class FailureChange:
    """A transaction with which failures came or went."""

    tx: int
    came: tuple[Failure, ...]
    gone: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Failures:
    """All of a relation: `counts` says how often each is there. `lineage` is that of the rows which are noted here;
    beyond `max` different ones, nothing is remembered of a row but that it is there. `joined` are the lineages at the
    inputs of joins, by their columns: they are those of the query as written, in whatever order the joins run."""

    lineage: Lineage = ()
    max: int = DEFAULT.failures_max
    counts: Counter[Failure] = field(default_factory=Counter)
    pending: list[tuple[int, Failure, int]] = field(default_factory=list)
    joined: Mapping[tuple[str, ...], Lineage] = field(default_factory=dict)

    def along(self, lineage: Lineage) -> Failures:
        """The same failures, noted by an operator whose rows have another lineage."""
        return replace(self, lineage=lineage)

    def beneath(self, relation: Relation) -> list[Failures]:
        """The same failures for each input of the relation."""
        lineages = zip(inputs_of(relation), beneath(relation, self.lineage), strict=True)
        if not isinstance(relation, Join):
            return [self.along(lineage) for _, lineage in lineages]
        return [self.along(self.joined.get(names_of(each), lineage)) for each, lineage in lineages]

    def note(self, failed: Mapping[int, str], rows: pa.RecordBatch, tx: Int64s, diff: Int64s) -> None:
        """`failed` says by place why a row has no value; the same row leaves with the same reason."""
        columns = [_encoded(traced, rows, list(failed)) for traced in self.lineage] if failed else []
        told = zip(*columns, strict=True) if columns else [()] * len(failed)
        for (place, reason), values in zip(failed.items(), told, strict=True):
            self.pending.append((int(tx[place]), Failure(reason, values), int(diff[place])))

    def passing(self, expressions: Expressions, batch: Batch) -> tuple[list[pa.Array], Batch]:
        """What the expressions give for each row. One that fails is noted, and left out."""
        evaluated = expressions.evaluate(batch.rows)
        if not evaluated.failed:
            return evaluated.columns, batch
        self.note(evaluated.failed, batch.rows, batch.tx, batch.diff)
        kept = np.ones(len(batch), np.bool_)
        kept[list(evaluated.failed)] = False
        return [column.filter(pa.array(kept)) for column in evaluated.columns], batch.filter(kept)

    def settle(self) -> list[FailureChange]:
        """What was noted, by transaction."""
        by_tx: dict[int, Counter[Failure]] = {}
        for tx, failure, diff in self.pending:
            by_tx.setdefault(tx, Counter())[failure] += diff
        self.pending.clear()
        moments = (self._moment(tx, by_tx[tx]) for tx in sorted(by_tx))
        return [moment for moment in moments if moment.came or moment.gone]

    def _moment(self, tx: int, net: Counter[Failure]) -> FailureChange:
        """In an order of its own, so that it does not matter in which steps the transactions came."""
        before = {failure: failure in self.counts for failure in _touched(net)}
        for failure, diff in sorted(net.items(), key=_turn):
            self._count(failure, diff)
        came = tuple(failure for failure, was in before.items() if not was and failure in self.counts)
        gone = tuple(failure for failure, was in before.items() if was and failure not in self.counts)
        return FailureChange(tx, came, gone)

    def _count(self, failure: Failure, diff: int) -> None:
        """What does not fit is counted as a row of which nothing is known, and leaves as one."""
        known = self.counts.get(failure, 0)
        if diff > 0 and not known and len(self.counts) >= self.max:
            failure = failure.blurred
        elif -diff > known and failure != failure.blurred:
            self._count(failure.blurred, diff + known)
            diff = -known
        self.counts[failure] += diff
        if not self.counts[failure]:
            del self.counts[failure]

    @property
    def reason(self) -> str | None:
        """One of the reasons, None where all is well."""
        return min((failure.reason for failure in self.counts), default=None)


def _encoded(traced: Traced, rows: pa.RecordBatch, places: list[int]) -> list[bytes | None]:
    name = min(traced.names & set(rows.schema.names), default=None)
    if name is None:
        return [None] * len(places)
    values, type = rows.column(name).take(pa.array(places)), field_type(rows.schema.field(name))
    encoded = encode_columns([values], [type], [traced.column.collation])
    return [each if len(each) <= _VALUE_BYTES_MAX else None for each in encoded]


def _touched(net: Counter[Failure]) -> Iterator[Failure]:
    for failure in sorted(net, key=_order):
        yield from (failure, failure.blurred)


def _turn(item: tuple[Failure, int]) -> tuple[bool, tuple[str, list[bytes]]]:
    """What goes makes room for what comes."""
    failure, diff = item
    return diff > 0, _order(failure)


def _order(failure: Failure) -> tuple[str, list[bytes]]:
    return failure.reason, [b"" if value is None else value for value in failure.told]
