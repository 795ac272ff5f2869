"""From messages to whole transactions, in commit order. Pure, but for a file that holds what does not fit in memory.

Changes of a transaction that is still under way are kept as they came, and read when it commits. What its rolled back
savepoints did is left out; the shapes of tables that they told are not, for they are told only once.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from headwater.model.errors import SourceError
from headwater.sources.postgres.wire.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    NamedType,
    Origin,
    Prepared,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    Update,
)
from headwater.sources.postgres.wire.pgoutput import MessageDecoder
from headwater.sources.postgres.wire.simple_transactions import SimpleTransactions, spans
from headwater.sources.source import ChangesLost

Said = Relation | Insert | Update | Delete | Truncate | LogicalMessage
SPOOL_BYTES = 32 << 20  # of one transaction under way; more than that goes into a file
HELD_BYTES_MAX = 64 << 20  # of one simple transaction that is not whole; more than that is decoded as it comes
TRANSACTION_BYTES_MAX = 1 << 30  # of one transaction; what it changed is read anew instead, with all that is captured
SIMPLE_MIN = 100  # messages, below which one by one is sooner
_LENGTH = struct.Struct(">I")
_ENDS = b"C"
_ROWS = frozenset({b"I", b"U", b"D"})


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """`position` is just behind the commit record."""

    position: int
    xid: int
    said: list[Said]
    at_us: int = field(default=0, compare=False)  # of the commit, since 2000


@dataclass(slots=True)
class _StreamedTransaction:
    """A transaction that streams: its messages as bytes, and the savepoints of it that were rolled back."""

    file: IO[bytes] = field(default_factory=lambda: tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES))  # noqa: SIM115
    undone: set[int] = field(default_factory=set)
    size: int = 0

    def add(self, payload: bytes) -> None:
        self.size += len(payload)
        _refuse_larger(self.size)
        self.file.write(_LENGTH.pack(len(payload)) + payload)

    def said(self) -> Iterator[Said]:
        decoder = MessageDecoder()
        decoder.decode(_IN_BLOCK)
        self.file.seek(0)
        while head := self.file.read(_LENGTH.size):
            message = decoder.decode(self.file.read(_LENGTH.unpack(head)[0]))
            if isinstance(message, Said) and (isinstance(message, Relation) or message.xid not in self.undone):
                yield message


def _refuse_larger(size: int) -> None:
    """Its rows would all be in memory together when it commits."""
    if size > TRANSACTION_BYTES_MAX:
        raise ChangesLost(f"a transaction is larger than the limit of {TRANSACTION_BYTES_MAX:,} bytes")


_IN_BLOCK = b"S" + struct.pack(">IB", 1, 1)


class Assembly:
    def __init__(self) -> None:
        self._decoder = MessageDecoder()
        self._begun: Begin | None = None
        self._said: list[Said] = []
        self._size = 0  # of the messages that became `_said`
        self._open: dict[int, _StreamedTransaction] = {}
        self._block: _StreamedTransaction | None = None
        self._held: list[bytes] = []

    @property
    def under_way(self) -> bool:
        """Part of a transaction has come, and the rest has not."""
        return self._begun is not None

    def take_all(self, payloads: Sequence[bytes]) -> Iterator[list[CommittedTransaction] | SimpleTransactions]:
        """The transactions that the messages complete, in order. Many simple ones that follow one another are left as
        they came; one that may yet be simple is held back until the rest of it is there."""
        if len(payloads) < SIMPLE_MIN and not self._held and payloads and payloads[-1][:1] == _ENDS:
            yield self.take_each(payloads)
            return
        waiting = [*self._held, *payloads]
        found = spans(waiting)
        rest = found.rest if sum(map(len, waiting[found.rest :])) < HELD_BYTES_MAX else len(waiting)
        self._held = waiting[rest:]
        at = 0
        for begin, end in found.whole:
            if end - begin >= SIMPLE_MIN:
                yield self.take_each(waiting[at:begin])
                yield SimpleTransactions(waiting[begin:end])
                at = end
        yield self.take_each(waiting[at:rest])

    def take_each(self, payloads: Sequence[bytes]) -> list[CommittedTransaction]:
        return [done for payload in payloads if (done := self.take(payload)) is not None]

    def take(self, payload: bytes) -> CommittedTransaction | None:
        """The transaction that the message completes, if it does."""
        if self._block is not None and payload[:1] != b"E":
            self._block.add(payload)
            return None
        message = self._decoder.decode(payload)
        if payload[:1] in _ROWS and self._begun is not None:
            self._said.append(message)  # type: ignore[arg-type]
            self._size += len(payload)
            _refuse_larger(self._size)
            return None
        return self._change(message) if isinstance(message, Said) else self._boundary(message)

    def close(self) -> None:
        for one in self._open.values():
            one.file.close()

    def _change(self, message: Said) -> CommittedTransaction | None:
        if self._begun is not None or isinstance(message, Relation):
            self._said.append(message)
        return None  # a message outside of transactions concerns nobody here

    def _boundary(self, message: Message) -> CommittedTransaction | None:
        match message:
            case Begin():
                self._begun = message
            case Commit(end=end):
                return self._committed(end)
            case StreamStart(xid=xid):
                self._block = self._open[xid] = self._open.get(xid) or _StreamedTransaction()
            case StreamStop():
                self._block = None
            case StreamAbort(xid=xid, subxid=subxid):
                self._aborted(xid, subxid)
            case StreamCommit(xid=xid, end=end, at_us=at_us):
                return self._streamed(xid, end, at_us)
            case Origin() | NamedType():
                pass
            case Prepared(kind=kind):
                raise SourceError(
                    f"unexpected two-phase commit message {kind}", hint="the slot was created by another program"
                )
            case _:
                raise AssertionError(message)
        return None

    def _committed(self, end: int) -> CommittedTransaction:
        if self._begun is None:
            raise SourceError("logical replication sent a COMMIT without a BEGIN")
        done = CommittedTransaction(end, self._begun.xid, self._said, self._begun.at_us)
        self._begun, self._said, self._size = None, [], 0
        return done

    def _aborted(self, xid: int, subxid: int) -> None:
        under_way = self._open.get(xid)
        if under_way is not None and xid != subxid:
            under_way.undone.add(subxid)
        elif under_way is not None:
            self._open.pop(xid).file.close()

    def _streamed(self, xid: int, end: int, at_us: int) -> CommittedTransaction:
        under_way = self._open.pop(xid, None) or _StreamedTransaction()
        with under_way.file:
            return CommittedTransaction(end, xid, list(under_way.said()), at_us)
