"""Simple transactions, which begin, change rows and commit, and say nothing else: found among the messages of a stream,
many at once. Pure; what the rows hold is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.model.errors import SourceError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
_BEGIN, _COMMIT = ord("B"), ord("C")
_IS_ROW = np.zeros(256, np.bool_)
_IS_ROW[[*b"IUD"]] = True
_OID, _AT, _XID, _END = 1, 9, 17, 10  # where they stand: in a row's message, in one that begins, in one that commits
EPOCH_S = 946_684_800  # PostgreSQL's: 2000-01-01


@dataclass(frozen=True, slots=True)
class Spans:
    """Simple transactions that follow one another, from one message to another; and where one begins that may be
    simple, but whose end has not come: `rest`."""

    whole: list[tuple[int, int]]
    rest: int


def spans(payloads: Sequence[bytes]) -> Spans:
    kinds = np.frombuffer(b"".join([payload[:1] for payload in payloads]), np.uint8)
    if len(kinds) < len(payloads):
        raise SourceError("malformed logical replication message: it is empty")
    others = np.flatnonzero(~_IS_ROW[kinds])
    is_simple = (kinds[others[:-1]] == _BEGIN) & (kinds[others[1:]] == _COMMIT)
    begins, ends = others[:-1][is_simple], others[1:][is_simple] + 1
    apart = np.flatnonzero(begins[1:] != ends[:-1])
    firsts, lasts = [0, *(apart + 1)], [*apart, len(ends) - 1]
    whole = [(int(begins[a]), int(ends[b])) for a, b in zip(firsts, lasts, strict=True)] if len(begins) else []
    is_open = len(others) and kinds[others[-1]] == _BEGIN
    return Spans(whole, int(others[-1]) if is_open else len(payloads))


class SimpleTransactions:
    """Whole simple transactions. `at` says where in `data` each change of a row begins and `ends` where it ends; `tx`
    is the place of its transaction, whose positions just behind the commit and xids are listed."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.payloads = payloads
        self.buffer = b"".join([*payloads, bytes(8)])  # so that what reads a little too far finds something
        self.data: Bytes = np.frombuffer(self.buffer, np.uint8)
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        kinds = self.data[starts]
        rows = _IS_ROW[kinds]
        self.at, self.ends, self.kinds = starts[rows], ends[rows], kinds[rows]
        self.begins = np.flatnonzero(kinds == _BEGIN)
        self.tx = (np.cumsum(kinds == _BEGIN) - 1)[rows]
        self.xids = self.number(starts[self.begins] + _XID, ">u4")
        self.positions = self.number(starts[kinds == _COMMIT] + _END, ">u8")
        self.times = self.number(starts[self.begins] + _AT, ">i8") / 1e6 + EPOCH_S
        self.oids = self.number(self.at + _OID, ">u4")

    def number(self, at: Ints, form: str) -> Ints:
        """The whole numbers that stand at these places, wherever those are."""
        width = np.dtype(form).itemsize
        everywhere = np.ndarray((len(self.buffer) - width + 1,), form, self.buffer, strides=(1,))
        return everywhere[at].astype(np.int64)

    def tables(self) -> list[int]:
        """The oids, each once."""
        others = np.flatnonzero(self.oids[1:] != self.oids[:-1]) + 1
        some: list[int] = np.unique(self.oids[[0, *others]]).tolist() if len(self.oids) else []
        return some

    def between(self, first: int, last: int) -> SimpleTransactions:
        """The transactions from one to another."""
        stops = [*self.begins.tolist(), len(self.payloads)]
        return SimpleTransactions(self.payloads[stops[first] : stops[last]])
