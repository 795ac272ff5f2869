"""RowProjector: the output columns of a template. It keeps no state, and does not touch `tx` and `diff`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from headwater.engine.expressions.evaluator import Expressions
from headwater.model.schema import Table
from headwater.model.value import Type, field
from headwater.sql.ir.expr import Output


@dataclass(frozen=True, slots=True)
class Projected:
    rows: pa.RecordBatch
    failed: dict[int, str]


class RowProjector:
    """Columns are named by their place: a result may be wide, and names are the reader's business."""

    def __init__(self, outputs: Sequence[Output], table: Table) -> None:
        self._expressions = Expressions([output.expr for output in outputs], table)
        self.types = tuple(self._expressions.types)
        self.schema = _schema(self.types)

    def apply(self, batch: pa.RecordBatch) -> Projected:
        evaluated = self._expressions.evaluate(batch)
        return Projected(pa.RecordBatch.from_arrays(evaluated.columns, schema=self.schema), evaluated.failed)


@lru_cache(maxsize=4096)
def _schema(types: tuple[Type, ...]) -> pa.Schema:
    return pa.schema([field(str(n), type) for n, type in enumerate(types)])
