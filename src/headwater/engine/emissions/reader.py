"""The results and diffs of an emission batch, as the model knows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from headwater.engine.emissions.block import DELETE, INSERT, RESULT, UPDATE
from headwater.engine.emissions.index import Entry
from headwater.model.emission import Diff, Fields, Result, RowChange
from headwater.model.value import Value, field_type, from_array

_FIXED = 7
_INSTANCE, _TX, _KIND, _OLD_HASH, _NEW_HASH, _OLD_INDEX, _INDEX = range(_FIXED)
_HEX = 16  # digits of a hash
_NO_HASH = "0" * _HEX
_NAMES: dict[int, Literal["insert", "update", "delete"]] = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


def read_emissions(
    index: Iterable[Entry],
    edits: pa.RecordBatch | None,
    names: Sequence[str],
    position: Callable[[int], int],
    gen: int = 0,
) -> list[Result | Diff]:
    """The results and diffs of one template as the model knows them, in the order of `index`.

    `position` tells the source position of a tx. Errors and closes are the reader's business: they have no rows.
    """
    told = [entry for entry in index if entry.kind in ("result", "diff")]
    if edits is not None and len(told) == 1 and told[0].kind == "result" and _is_one_result(edits):
        return [_result(told[0], edits, tuple(names), position, gen)]
    read = _EmissionReader(edits, tuple(names), position, gen)
    return [read.emission(entry) for entry in told]


def _is_one_result(edits: pa.RecordBatch) -> bool:
    """Nothing else is among the edits: the first rows of one subscription, and these may be many."""
    instances, txs, kinds = (set(edits.column(n).to_pylist()) for n in (_INSTANCE, _TX, _KIND))
    return len(instances) == len(txs) == 1 and kinds == {RESULT}


def _result(
    entry: Entry, edits: pa.RecordBatch, names: tuple[str, ...], position: Callable[[int], int], gen: int
) -> Result:
    hashes = tuple(hash or "" for hash in _hashes(edits, _NEW_HASH))
    rows = tuple(_new_rows(edits, names))
    return Result(entry.tx, entry.prev, gen, position(entry.tx), rows, hashes, names)


class _EmissionReader:
    def __init__(
        self, edits: pa.RecordBatch | None, names: tuple[str, ...], position: Callable[[int], int], gen: int
    ) -> None:
        self._names, self._position, self._gen = names, position, gen
        self._places: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
        if edits is None:
            return
        instances, txs, self._kinds = (edits.column(n).to_pylist() for n in (_INSTANCE, _TX, _KIND))
        for place, (instance, tx, kind) in enumerate(zip(instances, txs, self._kinds, strict=True)):
            self._places[instance, tx, kind == RESULT].append(place)
        self._old_hashes, self._new_hashes = _hashes(edits, _OLD_HASH), _hashes(edits, _NEW_HASH)
        self._old_indexes, self._indexes = edits.column(_OLD_INDEX).to_pylist(), edits.column(_INDEX).to_pylist()
        updates = any(self._old_hashes)  # a first result has no rows before
        self._old = _rows(edits, _FIXED, _FIXED + len(names), names) if updates else []
        self._new = _new_rows(edits, names)

    def emission(self, entry: Entry) -> Result | Diff:
        whole = entry.kind == "result"
        places = self._places[entry.instance, entry.tx, whole]
        head = (entry.tx, entry.prev, self._gen, self._position(entry.tx))
        if not whole:
            return Diff(*head, tuple(self._change(place) for place in places))
        hashes = tuple(self._new_hashes[place] or "" for place in places)
        return Result(*head, tuple(self._new[place] for place in places), hashes, self._names)

    def _change(self, place: int) -> RowChange:
        old_hash, new_hash = self._old_hashes[place], self._new_hashes[place]
        return RowChange(
            _NAMES[self._kinds[place]],
            None if old_hash is None else self._old[place],
            None if new_hash is None else self._new[place],
            old_hash,
            new_hash,
            self._indexes[place],
            self._old_indexes[place],
        )


def _hashes(edits: pa.RecordBatch, column: int) -> list[str | None]:
    """As `hash_hex` writes them; None for none."""
    written = np.asarray(edits.column(column)).astype(">u8").tobytes().hex()
    each = (written[at : at + _HEX] for at in range(0, len(written), _HEX))
    return [None if hash == _NO_HASH else hash for hash in each]


def _new_rows(edits: pa.RecordBatch, names: tuple[str, ...]) -> list[Fields]:
    """The last columns: many results have no old rows before them."""
    return _rows(edits, edits.num_columns - len(names), edits.num_columns, names)


def _rows(edits: pa.RecordBatch, start: int, end: int, names: tuple[str, ...]) -> list[Fields]:
    columns: list[list[Value]] = [
        from_array(edits.column(n), field_type(edits.schema.field(n))) for n in range(start, end)
    ]
    if not columns:
        return [{}] * edits.num_rows
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
